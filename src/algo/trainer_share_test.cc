#include "algo/trainer_share.h"

#include <gmock/gmock.h>

namespace paceline::algo {
namespace {

using ::testing::ElementsAre;

// Steps of 3 shards of 4 samples.
constexpr BatchPlan kRun{
    .seed = 1, .dataset_size = 100, .batch = 4, .shards = 3, .total_samples = 118};

TEST(TrainerShare, ALeaseIsCutByItsRangeAlone) {
  const TrainerShare lease = TrainerShare::OfLease(kRun, 7, {96, 22}, 2);
  EXPECT_TRUE(lease.leased());
  EXPECT_EQ(lease.lease, 7U);
  EXPECT_EQ(lease.plan.Steps(), 6U);
  EXPECT_EQ(lease.Rounds(), 3U);
  EXPECT_EQ(lease.EndStep(2), 6U);
  EXPECT_THAT(lease.RangesOf(0), ElementsAre(PositionRange{96, 4}));
  EXPECT_THAT(lease.RangesOf(5), ElementsAre(PositionRange{116, 2}));
}

TEST(TrainerShare, TheLearningRateOfALeaseFollowsItsPlaceInTheRun) {
  const TrainerShare lease = TrainerShare::OfLease(kRun, 1, {32, 32}, 1);
  EXPECT_EQ(lease.RunStep(0), 2U);  // samples 24 to 35
  EXPECT_EQ(lease.RunStep(1), 3U);
  const TrainerShare fixed{.plan = kRun, .rank = 1, .world = 3, .lease = 1};
  EXPECT_FALSE(fixed.leased());
  EXPECT_EQ(fixed.RunStep(5), 5U);
  EXPECT_THAT(fixed.RangesOf(2), ElementsAre(PositionRange{28, 4}));
}

}  // namespace
}  // namespace paceline::algo
