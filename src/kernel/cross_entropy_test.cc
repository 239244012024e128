#include "kernel/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernel/exponential.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

TEST(Exponential, IsExactToAFewUnitsInTheLastPlace) {
  double worst = 0;
  for (float x = -86.9F; x < 88; x += 0.0137F) {
    const double right = std::exp(double{x});
    worst = std::max(worst, std::abs(double{Exponential(x)} - right) / right);
  }
  EXPECT_LT(worst, 1.0 / (1 << 22));
}

TEST(Exponential, VanishesWhereFloatsDoAndKeepsNan) {
  EXPECT_EQ(Exponential(0.0F), 1.0F);
  EXPECT_EQ(Exponential(-87.5F), 0.0F);
  EXPECT_EQ(Exponential(-1e9F), 0.0F);
  EXPECT_EQ(Exponential(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(Exponential(std::numeric_limits<float>::quiet_NaN())));
}

std::vector<float> RandomRow(std::size_t size, float scale) {
  CounterRng rng(testing::TestSeed(), Purpose::kInit, size, 0);
  std::vector<float> row(size);
  for (float& value : row) value = scale * (rng.Uniform() - 0.5F);
  return row;
}

// The definition, in double.
struct Reference {
  double negative_log, smoothed;
  std::vector<double> gradient;
};
Reference Define(const std::vector<float>& row, const RowTarget& target) {
  double greatest = -1e300, sum = 0, total = 0;
  for (const float x : row) greatest = std::max(greatest, double{x});
  for (const float x : row) sum += std::exp(double{x} - greatest);
  const double log_sum = greatest + std::log(sum);
  for (const float x : row) total += log_sum - double{x};
  const double smoothing = double{target.smoothing}, n = static_cast<double>(row.size());
  Reference reference{log_sum - double{row[target.right]}, 0, {}};
  reference.smoothed = (1 - smoothing) * reference.negative_log + smoothing * total / n;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double wanted = smoothing / n + (i == target.right ? 1 - smoothing : 0);
    reference.gradient.push_back(double{target.weight} *
                                 (std::exp(double{row[i]} - log_sum) - wanted));
  }
  return reference;
}

TEST(CrossEntropy, IsItsDefinitionForRowsOfAllLengths) {
  for (const std::size_t size : {1U, 2U, 31U, 32U, 33U, 1000U, 32'000U}) {
    for (const float smoothing : {0.0F, 0.1F}) {
      for (const float scale : {1.0F, 60.0F}) {
        const std::vector<float> row = RandomRow(size, scale);
        const RowTarget target{.right = size / 3, .smoothing = smoothing, .weight = 0.25F};
        const Reference reference = Define(row, target);
        std::vector<float> gradient = row;
        const RowLoss with = CrossEntropyGradient(gradient, target);
        const RowLoss without = CrossEntropy(row, target);
        EXPECT_NEAR(without.negative_log, reference.negative_log, 2e-5) << size;
        EXPECT_NEAR(without.smoothed, reference.smoothed, 2e-5) << size;
        EXPECT_EQ(with.negative_log, without.negative_log);
        EXPECT_EQ(with.smoothed, without.smoothed);
        EXPECT_EQ(with.correct, without.correct);
        for (std::size_t i = 0; i < size; ++i) {
          ASSERT_NEAR(gradient[i], reference.gradient[i], 2e-7) << i << " of " << size;
        }
      }
    }
  }
}

TEST(CrossEntropy, OfEqualClassesTheFirstIsPredicted) {
  const std::vector<float> row{1, 3, 3, 2};
  EXPECT_TRUE(CrossEntropy(row, {.right = 1}).correct);
  EXPECT_FALSE(CrossEntropy(row, {.right = 2}).correct);
  EXPECT_FALSE(CrossEntropy(row, {.right = 0}).correct);
}

TEST(CrossEntropy, ShowsNan) {
  for (const std::size_t place : {0U, 5U, 40U}) {
    std::vector<float> row = RandomRow(41, 1);
    row[place] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(CrossEntropy(row, {.right = 7}).negative_log));
    EXPECT_TRUE(std::isnan(CrossEntropyGradient(row, {.right = 7}).smoothed));
    EXPECT_TRUE(std::isnan(row[7]));
  }
}

}  // namespace
}  // namespace paceline::kernel
