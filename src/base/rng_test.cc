#include "base/rng.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace paceline {
namespace {

// Known-answer vectors of the authors' Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, MatchesTheAuthorsVectors) {
  EXPECT_EQ(Philox({0, 0}, {0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(DeriveKey, EveryCoordinateChangesTheKey) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed : {0ULL, 1ULL, 1ULL << 40}) {
    for (Purpose purpose : {Purpose::kInit, Purpose::kDropout}) {
      for (std::uint64_t a : {0ULL, 1ULL, 1ULL << 40}) {
        for (std::uint64_t b : {0ULL, 1ULL, 1ULL << 40}) {
          keys.insert(DeriveKey(seed, purpose, a, b));
        }
      }
    }
  }
  EXPECT_EQ(keys.size(), 3U * 2U * 3U * 3U);
}

TEST(CounterRng, BelowStaysBelowAndReachesEveryValue) {
  CounterRng rng(7, Purpose::kTest, 1, 2);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(rng.Below(9));
  EXPECT_EQ(seen.size(), 9U);
  EXPECT_LT(*seen.rbegin(), 9U);
}

TEST(CounterRng, NormalHasMeanZeroAndVarianceOne) {
  CounterRng rng(7, Purpose::kTest, 3, 4);
  constexpr int kCount = 20'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = rng.Normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.03);
  EXPECT_NEAR(squares / kCount, 1.0, 0.05);
}

}  // namespace
}  // namespace paceline
