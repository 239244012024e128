#include "algo/loss_scale.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::algo {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(LossScale, AConstantOneStays) {
  LossScale scale = ParseLossScale("1024").value();
  scale.After(false);
  EXPECT_EQ(scale.scale, 1024);
  EXPECT_FALSE(scale.CanShrink());
}

TEST(LossScale, ADynamicOneHalvesDownToOne) {
  LossScale scale = ParseLossScale("dynamic").value();
  EXPECT_EQ(scale.scale, 65536);
  scale.After(false);
  EXPECT_EQ(scale.scale, 32768);
  for (int i = 0; i < 30; ++i) scale.After(false);
  EXPECT_EQ(scale.scale, 1);
  EXPECT_FALSE(scale.CanShrink());
}

TEST(LossScale, ADynamicOneDoublesAfterGoodStepsInARow) {
  LossScale scale = ParseLossScale("dynamic").value();
  for (std::uint64_t i = 1; i < LossScale::kGrowEvery; ++i) scale.After(true);
  EXPECT_EQ(scale.scale, 65536);
  scale.After(false);
  for (std::uint64_t i = 1; i < LossScale::kGrowEvery; ++i) scale.After(true);
  EXPECT_EQ(scale.scale, 32768);
  scale.After(true);
  EXPECT_EQ(scale.scale, 65536);
  for (std::uint64_t i = 0; i < 20 * LossScale::kGrowEvery; ++i) scale.After(true);
  EXPECT_EQ(scale.scale, LossScale::kMost);
}

TEST(LossScale, OnlyPowersOfTwoAreTaken) {
  for (const char* text :
       {"", "0", "3", "-2", "1.5", "1e3", "2x", "33554432", "99999999999999999999"}) {
    EXPECT_THAT(ParseLossScale(text), StatusIs(Code::kInvalidArgument, HasSubstr("--loss-scale")))
        << text;
  }
  EXPECT_EQ(ParseLossScale("1").value(), LossScale());
}

}  // namespace
}  // namespace paceline::algo
