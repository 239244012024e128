#include "kernel/internal/nonzeros.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel::internal {
namespace {

constexpr std::uint32_t kOffsetStep = 80;

void ExpectPlainLoop(Tiles tiles, const std::vector<float>& row) {
  std::vector<float> expected_values, values(row.size() + kListMargin);
  std::vector<std::uint32_t> expected_offsets, offsets(values.size());
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (row[k] == 0.0F) continue;
    expected_values.push_back(row[k]);
    expected_offsets.push_back(static_cast<std::uint32_t>(k) * kOffsetStep);
  }
  const auto list = tiles == Tiles::kAvx512 ? ListNonzerosAvx512 : ListNonzerosAvx2;
  const std::size_t count =
      list({row.data(), row.size(), kOffsetStep}, values.data(), offsets.data());
  values.resize(count);
  offsets.resize(count);
  EXPECT_EQ(values, expected_values) << row.size() << " values";
  EXPECT_EQ(offsets, expected_offsets) << row.size() << " values";
}

class ListNonzerosOf : public ::testing::TestWithParam<Tiles> {};
INSTANTIATE_TEST_SUITE_P(Vectors, ListNonzerosOf, ::testing::Values(Tiles::kAvx2, Tiles::kAvx512));

TEST_P(ListNonzerosOf, EqualsAPlainLoop) {
  if (!Supported(GetParam())) GTEST_SKIP() << "this CPU has no AVX-512";
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
  for (const std::size_t inner : {0U, 1U, 7U, 8U, 15U, 16U, 17U, 50U, 256U}) {
    for (const float share : {0.0F, 0.3F, 1.0F}) {
      std::vector<float> row(inner);
      for (float& value : row) value = rng.Uniform() < share ? rng.Normal() : 0.0F;
      ExpectPlainLoop(GetParam(), row);
    }
  }
}

// Zeros of either sign are none; what is too small to be normal is one.
TEST_P(ListNonzerosOf, NegativeZerosAreLeftOutAndTinyValuesAreNot) {
  if (!Supported(GetParam())) GTEST_SKIP() << "this CPU has no AVX-512";
  std::vector<float> row(20, -0.0F);
  row[3] = std::numeric_limits<float>::denorm_min();
  row[18] = std::numeric_limits<float>::infinity();
  ExpectPlainLoop(GetParam(), row);
}

}  // namespace
}  // namespace paceline::kernel::internal
