#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace paceline::data {

enum class JpegKind { kColour, kGrey, kProgressive, kCmyk, kAdobeCmyk };

struct TestJpeg {
  std::size_t width = 64;
  std::size_t height = 48;
  JpegKind kind = JpegKind::kColour;
  int quality = 95;
  // Of component c (red, green, blue; ink of CMYK) at x, y.
  std::function<std::uint8_t(std::size_t c, std::size_t x, std::size_t y)> pixel;
};

// A file as libjpeg's own encoder writes it.
std::string EncodeJpeg(const TestJpeg& jpeg);

// One flat colour.
std::string FlatJpeg(std::size_t width, std::size_t height, std::uint8_t red, std::uint8_t green,
                     std::uint8_t blue);

// One member: header, content, padding. `type` as in tar headers.
std::string TarFile(std::string_view name, std::string_view content, char type = '0');
// The same with a name that does not fit, in GNU's way and in that of pax.
std::string GnuLongFile(std::string_view name, std::string_view content);
std::string PaxFile(std::string_view name, std::string_view content);
std::string TarEnd();

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace paceline::data
