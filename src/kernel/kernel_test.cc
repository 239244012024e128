// Dropout, reductions and hashes against plain references.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernel/dropout.h"
#include "kernel/hash.h"
#include "kernel/reduce.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

const std::vector<std::size_t> kSizes{0, 1, 7, 63, 64, 65, 1000, 4096};

std::vector<float> Random(std::size_t n, std::uint64_t place) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, place, n);
  std::vector<float> values(n);
  for (float& value : values) value = rng.Normal();
  return values;
}

// The definition: 16 bits of the Philox block that belongs to the element.
bool KeptByDefinition(const DropoutOptions& options, std::size_t i) {
  const std::size_t group = i / 64, piece = i % 64 / 8, lane = i % 8;
  const std::uint64_t block = group * 8 + lane;
  const PhiloxBlock random = Philox(
      {static_cast<std::uint32_t>(options.key), static_cast<std::uint32_t>(options.key >> 32)},
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
  const std::uint32_t bits = (random[piece / 2] >> (piece % 2 == 0 ? 0 : 16)) & 0xFFFF;
  return bits >= static_cast<std::uint32_t>(options.probability * 65536.0F + 0.5F);
}

TEST(Dropout, FollowsItsDefinitionForEverySize) {
  const DropoutOptions options{.key = 0x0123456789abcdefULL, .probability = 0.3F};
  for (const std::size_t n : kSizes) {
    std::vector<std::uint8_t> mask(n, 7);
    DropoutMask(options, 0, mask);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(mask[i], KeptByDefinition(options, i) ? 1 : 0) << "element " << i << " of " << n;
    }
  }
}

TEST(Dropout, DoesNotDependOnHowTheTensorIsCut) {
  const DropoutOptions options{.key = 42, .probability = 0.5F};
  std::vector<std::uint8_t> whole(1000), parts(1000);
  DropoutMask(options, 0, whole);
  for (std::size_t begin = 0; begin < 1000; begin += 128) {
    const std::size_t count = std::min<std::size_t>(128, 1000 - begin);
    DropoutMask(options, begin, std::span(parts).subspan(begin, count));
  }
  EXPECT_EQ(whole, parts);
}

TEST(Dropout, DropsTheAskedShareAndKeepsTheMean) {
  const DropoutOptions options{.key = 7, .probability = 0.4F};
  constexpr std::size_t kCount = 100'000;
  std::vector<std::uint8_t> mask(kCount);
  DropoutMask(options, 0, mask);
  const double kept = std::accumulate(mask.begin(), mask.end(), 0.0);
  EXPECT_NEAR(kept / kCount, 0.6, 0.01);
  EXPECT_NEAR(kept / kCount * double{DropoutScale(options)}, 1.0, 0.02);
}

TEST(MaskedScale, WorksInPlace) {
  std::vector<float> gradient{1, 2, 3};
  const std::vector<std::uint8_t> mask{1, 0, 1};
  MaskedScale(gradient, mask, 2.0F, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{2, 0, 6}));
}

TEST(SquaredNorm, MatchesTheSumForEverySize) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> values = Random(n, 3);
    double expected = 0;
    for (const float value : values) expected += double{value} * value;
    EXPECT_NEAR(SquaredNorm(values), expected, 1e-9 * expected + 1e-12);
  }
}

TEST(AllFinite, SeesEveryValueThatIsNot) {
  EXPECT_TRUE(AllFinite({}));
  std::vector<float> values(37, std::numeric_limits<float>::lowest());
  EXPECT_TRUE(AllFinite(values));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::quiet_NaN()}) {
    for (float& value : values) {
      const float before = std::exchange(value, bad);
      EXPECT_FALSE(AllFinite(values)) << bad;
      value = before;
    }
  }
}

TEST(SquaredNorm, IsNotFiniteWhenAnyValueIsNot) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{17}, std::size_t{99}}) {
      std::vector<float> values(100, 1.0F);
      values[place] = bad;
      EXPECT_FALSE(std::isfinite(SquaredNorm(values)));
    }
  }
}

TEST(AddSpread, WritesTheSumToEveryDestinationAlsoOverItsSources) {
  for (const std::size_t size : {0U, 1U, 31U, 32U, 100U}) {
    std::vector<float> a(size), b(size), c(size);
    for (std::size_t i = 0; i < size; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = static_cast<float>(3 * i);
    }
    const std::vector<float*> everywhere{a.data(), b.data(), c.data()};
    AddSpread(a, b, everywhere);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(c[i], static_cast<float>(4 * i));
    EXPECT_EQ(a, c);
    EXPECT_EQ(b, c);
  }
}

TEST(AddInto, AddsElementwise) {
  std::vector<float> sum{1, 2, 3};
  AddInto(sum, std::vector<float>{10, 20, 30});
  Scale(sum, 0.5F);
  EXPECT_EQ(sum, (std::vector<float>{5.5F, 11, 16.5F}));
}

TEST(Hasher, DependsOnContentNotOnCuts) {
  Hasher whole, parts, other;
  whole.Update("paceline");
  parts.Update("pace");
  parts.Update("line");
  other.Update("pacelinE");
  EXPECT_EQ(whole.Hex(), parts.Hex());
  EXPECT_NE(whole.Hex(), other.Hex());
  EXPECT_EQ(whole.Hex().size(), 32U);
}

}  // namespace
}  // namespace paceline::kernel
