#include "algo/metrics.h"

#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::algo {
namespace {

using ::testing::DoubleEq;
using ::testing::Optional;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Predictions {
  std::vector<float> scores;
  std::vector<std::uint8_t> labels;

  AucAccumulator Accumulate(std::size_t begin, std::size_t end) const {
    AucAccumulator auc;
    for (std::size_t i = begin; i < end; ++i) auc.Add(scores[i], labels[i] != 0);
    return auc;
  }
};

// Positives score higher on average: squares of uniform numbers against their roots.
Predictions Random(std::size_t count) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, count, 7);
  Predictions p;
  for (std::size_t i = 0; i < count; ++i) {
    p.labels.push_back(rng.Below(4) == 0 ? 1 : 0);
    const float u = rng.Uniform();
    p.scores.push_back(p.labels.back() != 0 ? u : u * u);
  }
  return p;
}

TEST(ExactAuc, IsOneForPerfectAndZeroForReversedRanking) {
  const std::vector<std::uint8_t> labels{0, 0, 1, 1};
  EXPECT_THAT(ExactAuc(std::vector<float>{0.1F, 0.2F, 0.8F, 0.9F}, labels), Optional(DoubleEq(1)));
  EXPECT_THAT(ExactAuc(std::vector<float>{0.9F, 0.8F, 0.2F, 0.1F}, labels), Optional(DoubleEq(0)));
}

TEST(ExactAuc, CountsTiesHalf) {
  EXPECT_THAT(ExactAuc(std::vector<float>(5, 0.3F), std::vector<std::uint8_t>{0, 1, 0, 1, 1}),
              Optional(DoubleEq(0.5)));
}

// The example of scikit-learn's roc_auc_score documentation.
TEST(ExactAuc, MatchesAKnownExample) {
  EXPECT_THAT(
      ExactAuc(std::vector<float>{0.1F, 0.4F, 0.35F, 0.8F}, std::vector<std::uint8_t>{0, 0, 1, 1}),
      Optional(DoubleEq(0.75)));
}

TEST(ExactAuc, DoesNotExistForOneClassOrNan) {
  EXPECT_EQ(ExactAuc({}, {}), std::nullopt);
  EXPECT_EQ(ExactAuc(std::vector<float>{0.5F}, std::vector<std::uint8_t>{1}), std::nullopt);
  EXPECT_EQ(ExactAuc(std::vector<float>{0.5F, kNan}, std::vector<std::uint8_t>{1, 0}),
            std::nullopt);
}

TEST(AucAccumulator, IsCloseToExact) {
  for (std::size_t count : {100U, 1001U, 30'000U}) {
    const Predictions p = Random(count);
    const std::optional<double> exact = ExactAuc(p.scores, p.labels);
    const std::optional<double> bucketed = p.Accumulate(0, count).Value();
    ASSERT_TRUE(exact.has_value() && bucketed.has_value());
    EXPECT_GT(*exact, 0.55);
    EXPECT_NEAR(*bucketed, *exact, 2.0 / AucAccumulator::kBuckets);
  }
}

TEST(AucAccumulator, MergedPartsEqualTheWhole) {
  const Predictions p = Random(1000);
  for (std::size_t cut : {0U, 1U, 333U, 1000U}) {
    AucAccumulator left = p.Accumulate(0, cut);
    left.Merge(p.Accumulate(cut, 1000));
    EXPECT_EQ(left.Value(), p.Accumulate(0, 1000).Value());
  }
}

TEST(AucAccumulator, ClampsScoresAndRefusesNan) {
  AucAccumulator auc;
  EXPECT_EQ(auc.Value(), std::nullopt);
  auc.Add(-3, false);
  EXPECT_EQ(auc.Value(), std::nullopt);
  auc.Add(std::numeric_limits<float>::infinity(), true);
  EXPECT_THAT(auc.Value(), Optional(DoubleEq(1)));
  AucAccumulator broken;
  broken.Add(kNan, true);
  auc.Merge(broken);
  EXPECT_EQ(auc.not_a_number(), 1U);
  EXPECT_EQ(auc.Value(), std::nullopt);
}

TEST(AccuracyCounter, CountsAndMerges) {
  AccuracyCounter a, b;
  EXPECT_EQ(a.Value(), 0);
  a.Add({}, {});
  EXPECT_EQ(a.Value(), 0);
  a.Add(std::vector<std::int64_t>{1, 2, 3}, std::vector<std::int64_t>{1, 2, 4});
  b.Add(std::vector<std::int64_t>{7}, std::vector<std::int64_t>{7});
  a.Merge(b);
  EXPECT_EQ(a.total, 4U);
  EXPECT_DOUBLE_EQ(a.Value(), 0.75);
}

}  // namespace
}  // namespace paceline::algo
