#include "algo/learning_rate.h"

#include <cmath>

#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace paceline::algo {
namespace {

using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

constexpr std::uint64_t kFarAway = 1'000'000'000'000;

TEST(LearningRate, ConstantStaysAfterWarmUp) {
  const LearningRateSchedule plain{.base = 0.1};
  EXPECT_DOUBLE_EQ(LearningRateAt(plain, 0), 0.1);
  EXPECT_DOUBLE_EQ(LearningRateAt(plain, kFarAway), 0.1);
  const LearningRateSchedule warm{.base = 0.1, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(LearningRateAt(warm, 0), 0.025);
  EXPECT_DOUBLE_EQ(LearningRateAt(warm, 3), 0.1);
  EXPECT_DOUBLE_EQ(LearningRateAt(warm, 4), 0.1);
}

TEST(LearningRate, StepDecaysByGammaAtEveryBoundary) {
  const LearningRateSchedule schedule{
      .kind = LearningRateKind::kStep, .base = 1, .decay_every = 10, .gamma = 0.5};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 0), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 9), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 10), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 29), 0.25);
  EXPECT_EQ(LearningRateAt(schedule, kFarAway), 0);
}

TEST(LearningRate, StepWithoutIntervalNeverDecays) {
  const LearningRateSchedule schedule{.kind = LearningRateKind::kStep, .base = 1};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kFarAway), 1);
}

TEST(LearningRate, CosineRisesToBaseAndFallsToFloor) {
  const LearningRateSchedule schedule{.kind = LearningRateKind::kCosine,
                                      .base = 1,
                                      .warmup_steps = 10,
                                      .total_steps = 110,
                                      .floor = 0.1};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 0), 0.1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 9), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 10), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 60), 0.55);
  EXPECT_NEAR(LearningRateAt(schedule, 109), 0.1, 1e-3);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 110), 0.1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kFarAway), 0.1);
}

TEST(LearningRate, CosineWithNothingAfterWarmUpIsTheFloor) {
  for (std::uint64_t total : {0U, 5U, 10U}) {
    const LearningRateSchedule schedule{.kind = LearningRateKind::kCosine,
                                        .base = 1,
                                        .warmup_steps = 10,
                                        .total_steps = total,
                                        .floor = 0.25};
    EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 9), 1);
    EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 10), 0.25);
  }
}

// d_model 512 and 4000 warm-up steps, as in the paper: the peak is (512 * 4000)^-0.5.
TEST(LearningRate, InverseSqrtPeaksAtTheEndOfWarmUp) {
  const LearningRateSchedule schedule{
      .kind = LearningRateKind::kInverseSqrt, .base = 1 / std::sqrt(512.0), .warmup_steps = 4000};
  const double peak = 1 / std::sqrt(512.0 * 4000.0);
  EXPECT_NEAR(LearningRateAt(schedule, 0), peak / 4000, 1e-15);
  EXPECT_NEAR(LearningRateAt(schedule, 3999), peak, 1e-12);
  EXPECT_LT(LearningRateAt(schedule, 4000), peak);
  EXPECT_NEAR(LearningRateAt(schedule, 15'999), peak / 2, 1e-12);
}

TEST(LearningRate, InverseSqrtWithoutWarmUpStartsAtBase) {
  const LearningRateSchedule schedule{.kind = LearningRateKind::kInverseSqrt, .base = 0.3};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 0), 0.3);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 3), 0.15);
}

TEST(LearningRate, NamesParseBack) {
  for (const char* name : {"constant", "step", "cosine", "inverse-sqrt"}) {
    const Result<LearningRateKind> kind = ParseLearningRateKind(name);
    ASSERT_TRUE(kind.ok());
    EXPECT_STREQ(LearningRateKindName(*kind), name);
  }
  EXPECT_THAT(ParseLearningRateKind("linear"),
              StatusIs(Code::kInvalidArgument, HasSubstr("'linear': constant, step")));
}

}  // namespace
}  // namespace paceline::algo
