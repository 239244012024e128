// Any bytes as a JPEG: the decoder returns, with an error or with a part that covers what was asked
// for, and can be used again.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "data/crop.h"
#include "data/jpeg.h"
#include "data/resample.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline;
  constexpr std::size_t kSide = 8;
  constexpr std::size_t kMostPixels = 1 << 16;  // large ones only take time
  data::JpegDecoder decoder;
  for (const std::uint64_t place : {0U, 1U}) {
    if (!decoder.Open(std::as_bytes(std::span(data, size))).ok()) continue;
    if (decoder.width() * decoder.height() > kMostPixels) continue;
    data::Crop crop = data::DrawCrop({1, size, place}, decoder.width(), decoder.height());
    data::RgbImage image;
    if (!decoder.Decode(crop.box, kSide, image).ok()) continue;
    PACELINE_CHECK(image.pixels.size() == image.width * image.height * 3, "all pixels");
    std::vector<float> out(3 * kSide * kSide);
    data::Resampler().Run(image, crop.box, kSide, crop.flip, data::kUnitRange, out);
    for (const float value : out) PACELINE_CHECK(value >= 0 && value <= 1.0001F, "a colour");
  }
  return 0;
}
