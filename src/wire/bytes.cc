#include "wire/bytes.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace paceline::wire {

void ByteWriter::Text(std::string_view text) {
  PACELINE_CHECK(text.size() <= 0xFFFF, "a text on the wire has at most 65,535 bytes");
  Number(static_cast<std::uint16_t>(text.size()));
  Bytes(AsBytes(text));
}

std::span<const std::byte> ByteReader::Take(std::size_t count) {
  if (failed_ || left_.size() < count) {
    failed_ = true;
    return {};
  }
  const std::span<const std::byte> bytes = left_.first(count);
  left_ = left_.subspan(count);
  return bytes;
}

std::string ByteReader::Text(std::size_t limit) {
  const auto length = Number<std::uint16_t>();
  if (length > limit) {
    failed_ = true;
    return {};
  }
  const std::span<const std::byte> bytes = Take(length);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(text.begin(), text.end(), control)) {
    failed_ = true;
    return {};
  }
  return text;
}

Status ByteReader::Finish(const char* what) const {
  if (failed_) {
    return Status::Error(Code::kProtocol, fmt::format("{}: a field is missing or wrong", what));
  }
  if (!left_.empty()) {
    return Status::Error(Code::kProtocol, fmt::format("{}: {} bytes too many", what, left_.size()));
  }
  return {};
}

}  // namespace paceline::wire
