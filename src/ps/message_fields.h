#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "ps/push_message.h"
#include "wire/endian.h"

// Fields of messages between trainers and servers: little-endian numbers, and arrays that are used
// where they lie, which is why everything keeps to addresses divisible by 8.
namespace paceline::ps::internal {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::size_t kAlignment = 8;

constexpr std::size_t Padded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Writes fields one after the other; arrays are padded with zeros. The size is known before.
class FieldWriter {
 public:
  explicit FieldWriter(std::size_t bytes)
      : message_(bytes / kAlignment), left_(std::as_writable_bytes(std::span(message_))) {}
  explicit FieldWriter(std::span<std::byte> into) : left_(into) {}

  template <typename T>
  void Number(T value) {
    wire::StoreLittle(Next(sizeof(T)).data(), value);
  }
  template <typename T>
  void Array(std::span<const T> values) {
    const std::span<std::byte> to = Next(Padded(values.size_bytes()));
    if (!values.empty()) std::memcpy(to.data(), values.data(), values.size_bytes());
    std::ranges::fill(to.subspan(values.size_bytes()), std::byte{0});
  }
  void Finish() const { PACELINE_CHECK(left_.empty(), "the size was counted right"); }
  MessageBytes Take() {
    Finish();
    return std::move(message_);
  }

 private:
  std::span<std::byte> Next(std::size_t bytes) {
    PACELINE_CHECK(bytes <= left_.size(), "the size was counted right");
    const auto next = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return next;
  }

  MessageBytes message_;
  std::span<std::byte> left_;
};

// Reads them back; after the first that does not fit everything is empty and ok() is false.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  T Number() {
    const auto bytes = Take(sizeof(T));
    return bytes.empty() ? T{0} : wire::LoadLittle<T>(bytes.data());
  }
  template <typename T>
  std::span<const T> Array(std::uint64_t count) {
    if (count > left_.size() / sizeof(T)) {
      Fail();
      return {};
    }
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    const auto array = Take(Padded(bytes));
    if (array.empty()) return {};
    const auto padding = array.subspan(bytes);
    if (std::ranges::any_of(padding, [](std::byte b) { return b != std::byte{0}; })) Fail();
    return {reinterpret_cast<const T*>(array.data()), static_cast<std::size_t>(count)};
  }
  void Fail() { failed_ = true; }
  bool ok() const { return !failed_; }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> Take(std::size_t count) {
    if (failed_ || count > left_.size()) {
      failed_ = true;
      return {};
    }
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  std::span<const std::byte> left_;
  bool failed_ = false;
};

}  // namespace paceline::ps::internal
