#include "data/jpeg.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>

namespace paceline::data {

namespace {

// A progressive file can have any number of scans, each as costly as an image; cameras write 10.
constexpr int kMostScans = 200;

}  // namespace

// libjpeg reports errors by a call that must not return. Functions that set `escape` hold nothing
// with a destructor, so that nothing is skipped.
struct JpegDecoder::State {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  char text[JMSG_LENGTH_MAX] = "";

  // What Decode reads: columns and rows after scaling.
  JDIMENSION left = 0, top = 0, columns = 0, rows = 0;
  std::vector<std::uint8_t> cmyk;  // one row

  [[noreturn]] static void Fail(j_common_ptr common) {
    auto* const state = static_cast<State*>(common->client_data);
    common->err->format_message(common, state->text);
    std::longjmp(state->escape, 1);
  }

  // Warnings are damage that libjpeg paints over with grey. What only surrounds the image (bytes
  // too many, odd markers) is tolerated: some photographs of ImageNet are so.
  static void Warn(j_common_ptr common, int level) {
    if (level >= 0) return;
    const int code = common->err->msg_code;
    if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM) return;
    Fail(common);
  }

  static void CountScans(j_common_ptr common) {
    if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number <= kMostScans) return;
    auto* const state = static_cast<State*>(common->client_data);
    std::snprintf(state->text, sizeof state->text, "more than %d scans", kMostScans);
    std::longjmp(state->escape, 1);
  }

  bool Create() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = &Fail;
    errors.emit_message = &Warn;
    info.client_data = this;
    if (setjmp(escape) != 0) return false;
    jpeg_create_decompress(&info);
    info.client_data = this;
    progress.progress_monitor = &CountScans;
    info.progress = &progress;
    return true;
  }

  bool ReadHeader(const unsigned char* bytes, unsigned long count) {
    if (setjmp(escape) != 0) return false;
    jpeg_abort_decompress(&info);
    jpeg_mem_src(&info, bytes, count);
    jpeg_read_header(&info, TRUE);
    return true;
  }

  bool Cmyk() const {
    return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  }

  // Aligns left and columns to the blocks of the file.
  bool Start(unsigned eighths) {
    if (setjmp(escape) != 0) return false;
    info.scale_num = eighths;
    info.scale_denom = 8;
    info.out_color_space = Cmyk() ? JCS_CMYK : JCS_RGB;
    info.dct_method = JDCT_ISLOW;  // the one that is exact, and so the same everywhere
    jpeg_start_decompress(&info);
    left = std::min(left, info.output_width - 1);
    top = std::min(top, info.output_height - 1);
    columns = std::min(columns, info.output_width - left);
    rows = std::min(rows, info.output_height - top);
    jpeg_crop_scanline(&info, &left, &columns);
    if (top > 0) jpeg_skip_scanlines(&info, top);
    return true;
  }

  bool ReadRows(std::uint8_t* out, std::uint8_t* row_of_cmyk) {
    if (setjmp(escape) != 0) return false;
    for (JDIMENSION y = 0; y < rows; ++y) {
      std::uint8_t* const target = out + std::size_t{y} * columns * 3;
      JSAMPROW row = row_of_cmyk != nullptr ? row_of_cmyk : target;
      if (jpeg_read_scanlines(&info, &row, 1) != 1) return false;
      if (row_of_cmyk != nullptr) ToRgb(row_of_cmyk, target);
    }
    return true;
  }

  // Adobe's programs store ink inverted, and say so by their marker.
  void ToRgb(const std::uint8_t* row_of_cmyk, std::uint8_t* rgb) const {
    const unsigned flip = info.saw_Adobe_marker != 0 ? 0 : 255;
    for (JDIMENSION x = 0; x < columns; ++x, row_of_cmyk += 4, rgb += 3) {
      const unsigned light = row_of_cmyk[3] ^ flip;
      for (int c = 0; c < 3; ++c) {
        rgb[c] = static_cast<std::uint8_t>(((row_of_cmyk[c] ^ flip) * light + 127) / 255);
      }
    }
  }

  Status Bad() const {
    return Status::Error(Code::kBadData, fmt::format("not a whole JPEG: {}", text));
  }
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  PACELINE_CHECK(state_->Create(), "a decoder");
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->info); }

std::size_t JpegDecoder::width() const { return state_->info.image_width; }
std::size_t JpegDecoder::height() const { return state_->info.image_height; }

Status JpegDecoder::Open(std::span<const std::byte> bytes) {
  if (!LooksLikeJpeg(bytes)) {
    return Status::Error(Code::kBadData, "not a JPEG: it does not begin with ff d8 ff");
  }
  if (!state_->ReadHeader(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) {
    return state_->Bad();
  }
  if (std::uint64_t{width()} * height() > kMostPixels) {
    return Status::Error(Code::kBadData, fmt::format("an image of {}x{} is larger than {} pixels",
                                                     width(), height(), kMostPixels));
  }
  return {};
}

Status JpegDecoder::Decode(Box& box, std::size_t least, RgbImage& image) {
  unsigned eighths = 8;
  const double shorter = std::min(box.width, box.height);
  while (eighths > 1 && shorter * (eighths >> 1U) / 8 >= static_cast<double>(least)) eighths /= 2;
  const double scale = eighths / 8.0;
  box = {box.x * scale, box.y * scale, box.width * scale, box.height * scale};
  State& state = *state_;
  state.left = static_cast<JDIMENSION>(box.x);
  state.top = static_cast<JDIMENSION>(box.y);
  state.columns = static_cast<JDIMENSION>(std::ceil(box.x + box.width)) - state.left;
  state.rows = static_cast<JDIMENSION>(std::ceil(box.y + box.height)) - state.top;
  if (!state.Start(eighths)) return state.Bad();
  image.width = state.columns;
  image.height = state.rows;
  image.pixels.resize(image.width * image.height * 3);
  if (state.Cmyk()) state.cmyk.resize(image.width * 4);
  if (!state.ReadRows(image.pixels.data(), state.Cmyk() ? state.cmyk.data() : nullptr)) {
    return state.Bad();
  }
  box.x -= state.left;
  box.y -= state.top;
  return {};
}

bool LooksLikeJpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xFF} && bytes[1] == std::byte{0xD8} &&
         bytes[2] == std::byte{0xFF};
}

}  // namespace paceline::data
