#include "job/server_access.h"

#include <gtest/gtest.h>

#include "base/fingerprint.h"

namespace paceline::job {
namespace {

std::string DifferenceOf(const TrainConfig& config, const std::string& data = "data") {
  const TrainConfig usual{.model = "vgg16-small", .strategy = "ps", .mode = "ssp"};
  return FingerprintDifference(ServerFingerprint(usual, "data"), ServerFingerprint(config, data));
}

TEST(ServerFingerprint, NamesEverythingThatChangesTheResult) {
  TrainConfig config{.model = "vgg16-small", .strategy = "ps", .mode = "ssp"};
  EXPECT_EQ(DifferenceOf(config), "");
  config.lr = 0.5;
  EXPECT_EQ(DifferenceOf(config), "lr: 0 / 0.5");
  config.lr = 0;
  config.augment = "none";
  EXPECT_EQ(DifferenceOf(config), "augment: standard / none");
  config.augment = "standard";
  config.staleness += 1;
  EXPECT_TRUE(DifferenceOf(config).starts_with("staleness: ")) << DifferenceOf(config);
  config.mode = "async";
  EXPECT_NE(DifferenceOf(config).find("mode: ssp / async"), std::string::npos);
}

TEST(ServerFingerprint, KnowsTheDataByTheirFingerprint) {
  const TrainConfig config{.model = "vgg16-small", .strategy = "ps", .mode = "ssp"};
  const std::string difference = DifferenceOf(config, std::string(100'000, 'x'));
  EXPECT_TRUE(difference.starts_with("data: ")) << difference;
  EXPECT_LT(difference.size(), 100U);
}

TEST(ServerFingerprint, ALongerRunIsTheSameRun) {
  TrainConfig config{.model = "vgg16-small", .strategy = "ps", .mode = "ssp"};
  config.steps = 1000;
  config.servers = 5;
  EXPECT_EQ(DifferenceOf(config), "");
}

}  // namespace
}  // namespace paceline::job
