#include "algo/batch_plan.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::algo {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

BatchPlan Epochs(std::uint64_t epochs, std::uint64_t size, std::uint64_t batch,
                 std::uint64_t shards) {
  return {.seed = testing::TestSeed(),
          .dataset_size = size,
          .batch = batch,
          .shards = shards,
          .total_samples = epochs * size};
}

// Samples of one step in shard order.
std::vector<std::uint64_t> StepContent(const BatchPlan& plan, Step step) {
  std::vector<std::uint64_t> samples;
  for (std::uint64_t shard = 0; shard < plan.shards; ++shard) {
    const PositionRange range = plan.ShardRange(step, ShardId(shard));
    for (std::uint64_t i = 0; i < range.count; ++i) {
      samples.push_back(plan.SampleAt(range.begin + i));
    }
  }
  return samples;
}

void ExpectExactlyOnce(const BatchPlan& plan, std::uint64_t epochs) {
  std::vector<std::vector<int>> seen(epochs, std::vector<int>(plan.dataset_size, 0));
  std::uint64_t position = 0;
  for (std::uint64_t step = 0; step < plan.Steps(); ++step) {
    const std::vector<std::uint64_t> samples = StepContent(plan, Step(step));
    ASSERT_EQ(samples.size(), plan.StepSamples(Step(step)));
    ASSERT_FALSE(samples.empty());
    if (step + 1 < plan.Steps()) {
      ASSERT_EQ(samples.size(), plan.GlobalBatch());
    }
    for (std::uint64_t sample : samples) ++seen.at(plan.EpochOf(position++)).at(sample);
  }
  ASSERT_EQ(position, plan.total_samples);
  for (const auto& epoch : seen) {
    ASSERT_TRUE(std::ranges::all_of(epoch, [](int n) { return n == 1; }));
  }
}

TEST(BatchPlan, GivesEachSampleOfEachEpochExactlyOnce) {
  for (std::uint64_t size : {1U, 2U, 10U, 97U, 256U}) {
    for (std::uint64_t batch : {1U, 3U, 8U, 300U}) {
      for (std::uint64_t shards : {1U, 2U, 5U, 7U}) {
        SCOPED_TRACE(::testing::Message() << size << " " << batch << " " << shards);
        const BatchPlan plan = Epochs(3, size, batch, shards);
        ASSERT_THAT(plan.Validate(), IsOk());
        ExpectExactlyOnce(plan, 3);
      }
    }
  }
}

TEST(BatchPlan, HoldsTheSameSamplesPerStepForEverySplitOfTheGlobalBatch) {
  const BatchPlan four = Epochs(2, 1001, 8, 4), one = Epochs(2, 1001, 32, 1),
                  many = Epochs(2, 1001, 1, 32);
  ASSERT_EQ(four.Steps(), one.Steps());
  for (std::uint64_t step = 0; step < one.Steps(); ++step) {
    EXPECT_EQ(StepContent(four, Step(step)), StepContent(one, Step(step)));
    EXPECT_EQ(StepContent(many, Step(step)), StepContent(one, Step(step)));
  }
}

TEST(BatchPlan, LastStepMayBeShortWithEmptyShards) {
  const BatchPlan plan = Epochs(1, 21, 3, 4);  // 12 + 9: shards 3, 3, 3, 0
  EXPECT_EQ(plan.Steps(), 2U);
  EXPECT_EQ(plan.StepSamples(Step(1)), 9U);
  EXPECT_EQ(plan.ShardRange(Step(1), ShardId(2)), (PositionRange{18, 3}));
  EXPECT_EQ(plan.ShardRange(Step(1), ShardId(3)), (PositionRange{21, 0}));
}

TEST(BatchPlan, IsEmptyBeyondTheEnd) {
  const BatchPlan plan = Epochs(1, 21, 3, 4);
  EXPECT_EQ(plan.StepSamples(Step(2)), 0U);
  EXPECT_EQ(plan.ShardRange(Step(~0ULL), ShardId(1)), (PositionRange{21, 0}));
  EXPECT_EQ(Epochs(0, 21, 3, 4).Steps(), 0U);
}

TEST(BatchPlan, CanEndInTheMiddleOfAnEpoch) {
  BatchPlan plan = Epochs(1, 10, 4, 1);
  plan.total_samples = 3 * plan.GlobalBatch();
  EXPECT_EQ(plan.Steps(), 3U);
  EXPECT_EQ(plan.StepSamples(Step(2)), 4U);
  EXPECT_EQ(plan.EpochOf(plan.ShardRange(Step(2), ShardId(0)).begin), 0U);
  EXPECT_EQ(plan.EpochOf(11), 1U);
}

TEST(BatchPlan, RefusesZeroSizesAndOverflow) {
  EXPECT_THAT(Epochs(1, 0, 1, 1).Validate(), StatusIs(Code::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(Epochs(1, 1, 0, 1).Validate(),
              StatusIs(Code::kInvalidArgument, HasSubstr("1 shards x 0")));
  EXPECT_THAT(Epochs(1, 1, 1, 0).Validate(),
              StatusIs(Code::kInvalidArgument, HasSubstr("0 shards x 1")));
  EXPECT_THAT(Epochs(1, 1, 1ULL << 40, 1ULL << 40).Validate(),
              StatusIs(Code::kInvalidArgument, HasSubstr("2^32")));
  EXPECT_THAT(Epochs(1ULL << 63, 1, 1, 1).Validate(),
              StatusIs(Code::kInvalidArgument, HasSubstr("2^62")));
}

}  // namespace
}  // namespace paceline::algo
