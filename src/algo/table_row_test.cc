#include "algo/table_row.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::algo {
namespace {

std::vector<float> Row(const TableSource& source, std::int64_t id, std::size_t dim) {
  std::vector<float> values(dim);
  InitialRow(source, id, 0.5F, values);
  return values;
}

TEST(InitialRow, IsAFunctionOfSeedTableAndId) {
  const std::vector<float> row = Row({.seed = 1, .key = 2}, 3, 10);
  EXPECT_EQ(row, Row({.seed = 1, .key = 2}, 3, 10));
  EXPECT_NE(row, Row({.seed = 9, .key = 2}, 3, 10));
  EXPECT_NE(row, Row({.seed = 1, .key = 9}, 3, 10));
  EXPECT_NE(row, Row({.seed = 1, .key = 2}, 9, 10));
  EXPECT_NE(row, Row({.seed = 1, .key = 2}, -3, 10));
}

TEST(InitialRow, FillsItsRangeEvenly) {
  std::vector<float> values;
  for (std::int64_t id = 0; id < 10'000; ++id) {
    const auto row = Row({.seed = 1, .key = 2}, id, 10);
    values.insert(values.end(), row.begin(), row.end());
  }
  EXPECT_GE(*std::ranges::min_element(values), -0.5F);
  EXPECT_LT(*std::ranges::max_element(values), 0.5F);
  EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0) / 1e5, 0, 0.005);
  const auto below = std::ranges::count_if(values, [](float value) { return value < -0.25F; });
  EXPECT_NEAR(static_cast<double>(below) / 1e5, 0.25, 0.01);
}

TEST(InitialRow, WithoutARangeIsZero) {
  std::vector<float> values(3, 7.0F);
  InitialRow({}, 5, 0.0F, values);
  EXPECT_EQ(values, std::vector<float>(3));
}

TEST(AdmittedByChance, AdmitsTheShareThatWasAskedForAndNestsLargerOnes) {
  const TableSource source{.seed = 4, .key = 5};
  int third = 0;
  for (std::int64_t id = 0; id < 30'000; ++id) {
    EXPECT_FALSE(AdmittedByChance(source, id, 0.0));
    EXPECT_TRUE(AdmittedByChance(source, id, 1.0));
    if (!AdmittedByChance(source, id, 1.0 / 3)) continue;
    ++third;
    EXPECT_TRUE(AdmittedByChance(source, id, 0.5));
  }
  EXPECT_NEAR(third, 10'000, 500);
}

}  // namespace
}  // namespace paceline::algo
