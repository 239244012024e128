#include "algo/learning_rate.h"

#include <cmath>
#include <vector>

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

TEST(LearningRate, StepDecaysAtTheStepsItIsGiven) {
  const LearningRateSchedule schedule{.kind = LearningRateKind::kStep,
                                      .base = 1,
                                      .warmup_steps = 2,
                                      .decay_every = 1,
                                      .decay_at = {10, 20, 25},
                                      .gamma = 0.5};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 0), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 9), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 10), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 24), 0.25);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 25), 0.125);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kFarAway), 0.125);
}

// A step that holds the end of an epoch still belongs to it. Several small epochs may end in one.
TEST(LearningRate, EpochsBeginWithTheFirstStepBehindThem) {
  using Steps = std::vector<std::uint64_t>;
  const Steps epochs{1, 2, 4};
  EXPECT_EQ(StepsOfEpochs(epochs, 100, 10), (Steps{10, 20, 40}));
  EXPECT_EQ(StepsOfEpochs(epochs, 95, 10), (Steps{10, 19, 38}));
  EXPECT_EQ(StepsOfEpochs(epochs, 3, 100), (Steps{1, 1, 1}));
  EXPECT_EQ(StepsOfEpochs(Steps{1, ~std::uint64_t{0}}, 95, 10), Steps{10});
}

// ImageNet, 8 workers of 32: 5004.5 steps are an epoch.
TEST(LearningRate, EpochsOfImageNet) {
  EXPECT_EQ(StepsOfEpochs(ParseEpochs("30,60,80").value(), 1'281'167, 256),
            (std::vector<std::uint64_t>{150'137, 300'274, 400'365}));
}

TEST(LearningRate, WrongEpochsAreNamed) {
  EXPECT_EQ(ParseEpochs("7").value(), std::vector<std::uint64_t>{7});
  for (const char* text : {"", "30,", "-1", "3,x", "1.5", "0,1", "30, 60", "1e9"}) {
    EXPECT_THAT(ParseEpochs(text), StatusIs(Code::kInvalidArgument, HasSubstr("whole number")))
        << text;
  }
  for (const char* text : {"30,30", "60,30,80"}) {
    EXPECT_THAT(ParseEpochs(text),
                StatusIs(Code::kInvalidArgument, HasSubstr("'30' is not larger than")))
        << text;
  }
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

TEST(LearningRate, LinearAndPolyFallToFloorAfterWarmUp) {
  LearningRateSchedule schedule{.kind = LearningRateKind::kLinear,
                                .base = 1,
                                .warmup_steps = 10,
                                .total_steps = 110,
                                .floor = 0.1};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 4), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 10), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 60), 0.55);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kFarAway), 0.1);
  schedule.kind = LearningRateKind::kPoly;
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 60), 0.1 + 0.9 * 0.25);
  schedule.power = 1;
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 60), 0.55);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 110), 0.1);
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=20) of PyTorch 1.13.1.
TEST(LearningRate, OneCycleIsThatOfTorch) {
  const std::vector<double> expected{
      0.04,          0.1316718427, 0.3716718427, 0.6683281573, 0.9083281573, 1,
      0.9874640062,  0.950484632,  0.8909161776, 0.8117456539, 0.7169430018, 0.6112620219,
      0.500002,      0.3887419781, 0.2830609982, 0.1882583461, 0.1090878224, 0.04951936799,
      0.01253999376, 4e-06};
  const LearningRateSchedule schedule{
      .kind = LearningRateKind::kOneCycle, .base = 1, .total_steps = 20};
  for (std::uint64_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(LearningRateAt(schedule, step), expected[step], 1e-9) << step;
  }
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kFarAway), 4e-06);
}

TEST(LearningRate, OneCycleTakesTheWarmUpAndTheFloorItIsGiven) {
  const LearningRateSchedule schedule{.kind = LearningRateKind::kOneCycle,
                                      .base = 1,
                                      .warmup_steps = 5,
                                      .total_steps = 20,
                                      .floor = 0.25};
  EXPECT_NEAR(LearningRateAt(schedule, 0), 0.04, 1e-12);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 4), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 19), 0.25);
}

TEST(LearningRate, OneCycleOfAnyLengthIsFinite) {
  for (const std::uint64_t total : {0U, 1U, 2U, 3U, 4U}) {
    for (const std::uint64_t warmup : {0U, 1U, 3U, 9U}) {
      const LearningRateSchedule schedule{.kind = LearningRateKind::kOneCycle,
                                          .base = 1,
                                          .warmup_steps = warmup,
                                          .total_steps = total};
      for (std::uint64_t step = 0; step < 12; ++step) {
        const double rate = LearningRateAt(schedule, step);
        EXPECT_TRUE(rate > 0 && rate <= 1) << total << " " << warmup << " " << step << ": " << rate;
      }
    }
  }
}

TEST(LearningRate, NamesParseBack) {
  for (const char* name :
       {"constant", "step", "cosine", "inverse-sqrt", "linear", "poly", "one-cycle"}) {
    const Result<LearningRateKind> kind = ParseLearningRateKind(name);
    ASSERT_TRUE(kind.ok());
    EXPECT_STREQ(LearningRateKindName(*kind), name);
  }
  EXPECT_THAT(ParseLearningRateKind("sawtooth"),
              StatusIs(Code::kInvalidArgument, HasSubstr("'sawtooth': constant, step")));
}

}  // namespace
}  // namespace paceline::algo
