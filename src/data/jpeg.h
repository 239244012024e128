#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace paceline::data {

// Part of an image, in pixels from its top left corner.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// Rows of red, green, blue.
struct RgbImage {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> pixels;
};

// Decodes JPEG files with libjpeg-turbo: baseline and progressive, grey, colour, CMYK. The pixels
// are the same on every machine. Thread-compatible; keeps its memory from image to image. Does not
// resize: see resample.h.
class JpegDecoder {
 public:
  static constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 27;  // larger is refused

  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header. `bytes` are borrowed until Decode returns.
  Status Open(std::span<const std::byte> bytes);
  std::size_t width() const;
  std::size_t height() const;

  // The part of the image that covers `box`, made smaller while it is decoded (by 2, 4 or 8) as far
  // as `box` keeps `least` pixels in either direction: most of the cost of a large photograph goes
  // away. `box` becomes its place in `image`. Once for each Open; kBadData for data that are
  // damaged or end early.
  Status Decode(Box& box, std::size_t least, RgbImage& image);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether these first bytes of a file can be a JPEG's: ff d8 ff.
bool LooksLikeJpeg(std::span<const std::byte> bytes);

}  // namespace paceline::data
