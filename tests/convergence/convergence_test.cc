// Models learn: a bound on held-out accuracy after a fixed number of samples. Every run is a pure
// function of its seed, so a bound that holds once holds always (at one thread).
#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

TEST(Convergence, Vgg16SmallReachesNinetyPercentOnHeldOutImages) {
  const TempDir dir;
  const CommandResult result = RunPaceline(
      {"train", "vgg16-small", "--run", dir / "run", "--steps", "600", "--batch", "64", "--threads",
       "2", "--lr", "2e-3", "--lr-schedule", "cosine", "--eval-every", "1000", "--json"});
  ASSERT_EQ(result.state.code, 0) << result.err;
  const nlohmann::json json = LastJson(result.out);
  EXPECT_GE(json["accuracy"].get<double>(), 0.90) << json;
  EXPECT_GE(json["auc"].get<double>(), 0.98) << json;
}

}  // namespace
}  // namespace paceline::testing
