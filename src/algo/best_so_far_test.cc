#include "algo/best_so_far.h"

#include <limits>

#include <gtest/gtest.h>

namespace paceline::algo {
namespace {

TEST(BestSoFar, KeepsTheLowestOrTheHighest) {
  BestSoFar low, high;
  const double figures[] = {3, 2, 4, 2, 1};
  for (std::uint64_t i = 0; i < 5; ++i) {
    low.Judge(Step(i + 1), figures[i], Better::kLower);
    high.Judge(Step(i + 1), figures[i], Better::kHigher);
  }
  EXPECT_EQ(low.value, 1);
  EXPECT_EQ(low.step, Step(5));
  EXPECT_EQ(low.since, 0U);
  EXPECT_EQ(high.value, 4);
  EXPECT_EQ(high.step, Step(3));
  EXPECT_EQ(high.since, 2U);
}

TEST(BestSoFar, EqualIsNotBetter) {
  BestSoFar best;
  EXPECT_TRUE(best.Judge(Step(1), 0.5, Better::kHigher));
  EXPECT_FALSE(best.Judge(Step(2), 0.5, Better::kHigher));
  EXPECT_EQ(best.since, 1U);
}

TEST(BestSoFar, TheSameEvaluationCountsOnce) {
  BestSoFar best;
  best.Judge(Step(1), 1, Better::kLower);
  best.Judge(Step(2), 2, Better::kLower);
  const BestSoFar before = best;
  EXPECT_FALSE(best.Judge(Step(2), 2, Better::kLower));
  EXPECT_FALSE(best.Judge(Step(2), 0, Better::kLower));
  EXPECT_EQ(best, before);
}

TEST(BestSoFar, AFigureThatIsNotFiniteIsNeverTheBest) {
  BestSoFar best;
  EXPECT_FALSE(best.Judge(Step(1), std::numeric_limits<double>::quiet_NaN(), Better::kLower));
  EXPECT_FALSE(best.Judge(Step(2), -std::numeric_limits<double>::infinity(), Better::kLower));
  EXPECT_FALSE(best.known);
  EXPECT_EQ(best.since, 2U);
  EXPECT_TRUE(best.Judge(Step(3), 7, Better::kLower));
}

}  // namespace
}  // namespace paceline::algo
