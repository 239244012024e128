#include "data/image_test_util.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>

namespace paceline::data {

std::string EncodeJpeg(const TestJpeg& jpeg) {
  const bool cmyk = jpeg.kind == JpegKind::kCmyk || jpeg.kind == JpegKind::kAdobeCmyk;
  const std::size_t components = jpeg.kind == JpegKind::kGrey ? 1 : cmyk ? 4 : 3;
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = static_cast<JDIMENSION>(jpeg.width);
  info.image_height = static_cast<JDIMENSION>(jpeg.height);
  info.input_components = static_cast<int>(components);
  info.in_color_space = components == 1 ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, jpeg.quality, TRUE);
  info.write_Adobe_marker = jpeg.kind == JpegKind::kAdobeCmyk ? TRUE : FALSE;
  if (jpeg.kind == JpegKind::kProgressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(jpeg.width * components);
  for (std::size_t y = 0; y < jpeg.height; ++y) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = jpeg.pixel(i % components, i / components, y);
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(memory), bytes);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

std::string FlatJpeg(std::size_t width, std::size_t height, std::uint8_t red, std::uint8_t green,
                     std::uint8_t blue) {
  return EncodeJpeg(
      {.width = width, .height = height, .pixel = [=](std::size_t c, std::size_t, std::size_t) {
         return c == 0 ? red : c == 1 ? green : blue;
       }});
}

std::string TarFile(std::string_view name, std::string_view content, char type) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(124, 11, fmt::format("{:011o}", content.size()));
  header.replace(136, 11, "00000000000");
  header.replace(148, 8, "        ");
  header[156] = type;
  header.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  std::string member = header + std::string(content);
  member.resize((member.size() + 511) / 512 * 512, '\0');
  return member;
}

std::string GnuLongFile(std::string_view name, std::string_view content) {
  return TarFile("././@LongLink", std::string(name) + '\0', 'L') +
         TarFile(name.substr(0, 99), content);
}

std::string PaxFile(std::string_view name, std::string_view content) {
  std::string record = fmt::format(" path={}\n", name);
  std::size_t length = record.size();
  while (length != record.size() + std::to_string(length).size()) {
    length = record.size() + std::to_string(length).size();
  }
  return TarFile("PaxHeaders/x", std::to_string(length) + record, 'x') +
         TarFile(name.substr(0, 99), content);
}

std::string TarEnd() { return std::string(1024, '\0'); }

}  // namespace paceline::data
