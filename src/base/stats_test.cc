#include "base/stats.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Summarize, EmptyInputGivesZeros) {
  const Summary summary = Summarize({});
  EXPECT_EQ(summary.count, 0U);
  EXPECT_EQ(summary.median, 0);
  EXPECT_EQ(summary.RelativeSpread(), 0);
}

TEST(Summarize, OneOutlierDoesNotMoveMedianOrSpread) {
  const std::vector<double> values{10, 11, 9, 10, 1000};
  const Summary summary = Summarize(values);
  EXPECT_EQ(summary.median, 10);
  EXPECT_EQ(summary.mad, 1);
  EXPECT_EQ(summary.max, 1000);
  EXPECT_EQ(CountOutliers(values), 1U);
}

TEST(Quantile, InterpolatesBetweenNeighbours) {
  const std::vector<double> values{4, 1, 3, 2};
  EXPECT_EQ(Quantile(values, 0), 1);
  EXPECT_EQ(Quantile(values, 0.5), 2.5);
  EXPECT_EQ(Quantile(values, 1), 4);
}

TEST(PairedRatio, CancelsADriftThatHitsBothSides) {
  const std::vector<double> ours{20, 10, 40}, theirs{10, 5, 20};
  const Summary ratio = PairedRatio(ours, theirs);
  EXPECT_EQ(ratio.median, 2);
  EXPECT_EQ(ratio.mad, 0);
}

}  // namespace
}  // namespace paceline
