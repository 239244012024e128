#include "wire/crc32c.h"

#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::wire {
namespace {

std::vector<std::byte> RandomBytes(std::size_t count) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 1, count);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.Next() & 0xFF);
  return bytes;
}

// One bit at a time: the definition, too slow for anything else.
std::uint32_t ByDefinition(std::span<const std::byte> data) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::byte b : data) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

TEST(Crc32c, AgreesWithTheExamplesOfRfc3720) {
  // RFC 3720 appendix B.4; the RFC prints the bytes as sent, lowest first.
  std::vector<std::byte> data(32, std::byte{0});
  EXPECT_EQ(Crc32c(data), 0x8A9136AAU);
  data.assign(32, std::byte{0xFF});
  EXPECT_EQ(Crc32c(data), 0x62A8AB43U);
  for (unsigned i = 0; i < 32; ++i) data[i] = static_cast<std::byte>(i);
  EXPECT_EQ(Crc32c(data), 0x46DD794EU);
  for (unsigned i = 0; i < 32; ++i) data[i] = static_cast<std::byte>(31 - i);
  EXPECT_EQ(Crc32c(data), 0x113FDB5CU);
}

TEST(Crc32c, HasTheCheckValueOfTheCatalogue) {
  constexpr std::string_view kDigits = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(kDigits))), 0xE3069283U);
  EXPECT_EQ(Crc32c({}), 0U);
}

TEST(Crc32c, InstructionTableAndDefinitionAgreeAtEverySizeAndAlignment) {
  const std::vector<std::byte> data = RandomBytes(600);
  for (std::size_t from = 0; from < 9; ++from) {
    for (std::size_t size = 0; from + size <= 300; ++size) {
      const std::span<const std::byte> part = std::span(data).subspan(from, size);
      const std::uint32_t expected = ByDefinition(part);
      ASSERT_EQ(Crc32c(part), expected) << Crc32cImplementation() << " " << from << "+" << size;
      ASSERT_EQ(Crc32cPortable(part), expected) << from << "+" << size;
    }
  }
}

TEST(Crc32c, InterleavedStreamsAreJoinedCorrectly) {
  const std::vector<std::byte> data = RandomBytes(100'003);
  for (const std::size_t size : {12'287U, 12'288U, 12'289U, 24'575U, 24'576U, 24'583U, 99'990U}) {
    for (const std::size_t from : {0U, 1U, 7U}) {
      const std::span<const std::byte> part = std::span(data).subspan(from, size);
      EXPECT_EQ(Crc32c(part), ByDefinition(part)) << from << "+" << size;
    }
  }
}

TEST(Crc32c, IsExtendedPieceByPiece) {
  const std::vector<std::byte> data = RandomBytes(30'000);
  const std::span<const std::byte> all(data);
  for (const std::size_t cut : {0U, 1U, 13U, 4096U, 12'288U, 29'999U, 30'000U}) {
    EXPECT_EQ(Crc32c(all.subspan(cut), Crc32c(all.first(cut))), Crc32c(all)) << cut;
    EXPECT_EQ(Crc32cPortable(all.subspan(cut), Crc32cPortable(all.first(cut))), Crc32c(all)) << cut;
  }
}

TEST(Crc32c, EveryFlippedBitChangesIt) {
  std::vector<std::byte> data = RandomBytes(64);
  const std::uint32_t before = Crc32c(data);
  for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(Crc32c(data), before) << bit;
    data[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace paceline::wire
