#include "kernel/copy.h"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::kernel {
namespace {

constexpr std::byte kUntouched{0xEE};
constexpr std::size_t kLong = std::size_t{1} << 30;  // goes past the cache

TEST(CopyTest, CopiesEveryByteAndNoOtherAtAnyAlignment) {
  for (const std::size_t bytes : {0U, 1U, 63U, 1'024U, 1'025U, 2'111U, 100'001U}) {
    for (const std::size_t to_offset : {0U, 1U, 16U, 63U}) {
      for (const std::size_t from_offset : {0U, 7U, 48U}) {
        std::vector<std::byte> from(from_offset + bytes), to(to_offset + bytes + 1);
        for (std::size_t i = 0; i < bytes; ++i) {
          from[from_offset + i] = static_cast<std::byte>((i * 7 + i / 256) % 256);
        }
        const auto source = std::span(from).subspan(from_offset);
        std::vector<std::byte> expected(to_offset + bytes + 1, kUntouched);
        std::ranges::copy(source, expected.begin() + static_cast<std::ptrdiff_t>(to_offset));
        for (const std::size_t whole : {bytes, kLong}) {
          std::ranges::fill(to, kUntouched);
          CopyPart(std::span(to).subspan(to_offset, bytes), source, whole);
          EXPECT_EQ(to, expected) << bytes << " bytes of " << whole << " from " << from_offset
                                  << " to " << to_offset;
        }
      }
    }
  }
}

TEST(CopyTest, CopiesFloats) {
  const std::vector<float> from(10'000, 1.5F);
  std::vector<float> to(from.size());
  CopyPart(to, from, kLong);
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace paceline::kernel
