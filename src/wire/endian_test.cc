#include "wire/endian.h"

#include <array>
#include <limits>

#include <gmock/gmock.h>

namespace paceline::wire {
namespace {

TEST(Endian, LowestByteComesFirst) {
  std::array<std::byte, 8> buffer{};
  StoreU64(buffer.data(), 0x0807060504030201);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(std::to_integer<unsigned>(buffer[i]), i + 1);
  EXPECT_EQ(LoadU16(buffer.data()), 0x0201);
  EXPECT_EQ(LoadU32(buffer.data()), 0x04030201U);
  EXPECT_EQ(LoadU64(buffer.data()), 0x0807060504030201U);
}

TEST(Endian, StoreThenLoadGivesTheValueAtAnyAlignment) {
  std::array<std::byte, 16> buffer{};
  for (std::size_t at = 0; at < 8; ++at) {
    StoreU16(&buffer[at], 0xFEDC);
    EXPECT_EQ(LoadU16(&buffer[at]), 0xFEDC);
    StoreU32(&buffer[at], 0xFEDCBA98);
    EXPECT_EQ(LoadU32(&buffer[at]), 0xFEDCBA98U);
    StoreU64(&buffer[at], std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(LoadU64(&buffer[at]), std::numeric_limits<std::uint64_t>::max());
    StoreF32(&buffer[at], -2.0F);
    EXPECT_EQ(LoadF32(&buffer[at]), -2.0F);
    EXPECT_EQ(LoadU32(&buffer[at]), 0xC0000000U);
  }
}

}  // namespace
}  // namespace paceline::wire
