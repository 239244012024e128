#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "wire/endian.h"

namespace paceline::wire {

// Appends little-endian fields to a message.
class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void Number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    StoreLittle(bytes_.data() + at, value);
  }
  void Bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // u16 length, then the bytes; at most 65,535 of them.
  void Text(std::string_view text);

  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads the same fields from bytes that anybody may have sent. The first field that does not fit
// fails the reader; later reads return zeros, and Finish() tells.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <std::unsigned_integral T>
  T Number() {
    const std::span<const std::byte> bytes = Take(sizeof(T));
    return bytes.empty() ? T{0} : LoadLittle<T>(bytes.data());
  }
  template <std::size_t Size>
  std::array<std::byte, Size> Array() {
    std::array<std::byte, Size> array{};
    const std::span<const std::byte> bytes = Take(Size);
    std::copy(bytes.begin(), bytes.end(), array.begin());
    return array;
  }
  // Refuses texts longer than `limit` and control characters: texts end up in messages.
  std::string Text(std::size_t limit);

  std::size_t left() const { return left_.size(); }
  void Fail() { failed_ = true; }

  // kProtocol when a field was missing or wrong, or when bytes are left over.
  Status Finish(const char* what) const;

 private:
  std::span<const std::byte> Take(std::size_t count);

  std::span<const std::byte> left_;
  bool failed_ = false;
};

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace paceline::wire
