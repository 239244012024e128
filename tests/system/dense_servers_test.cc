// Torch models with parameter servers, as real processes.
#include <signal.h>

#include <gmock/gmock.h>

#include "support/processes.h"
#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> Training(const std::string& run, std::vector<std::string> more) {
  more.insert(more.begin(), {"--workers", "2", "--threads", "1", "--steps", "20", "--batch", "4",
                             "--lr", "0.01"});
  return SmallTraining(run, more);
}

// Gradients are added in the same order and applied by the same code, whoever keeps the parameters.
TEST(DenseServers, SyncGivesTheBitsOfAllReduceForEveryNumberOfServers) {
  const TempDir dir;
  for (const std::string optimizer : {"sgd", "adam"}) {
    const std::string expected =
        HashOf(RunPaceline(Training(dir / ("group-" + optimizer), {"--optimizer", optimizer})));
    for (const std::string servers : {"1", "2", "3"}) {
      EXPECT_EQ(HashOf(RunPaceline(Training(
                    dir / (optimizer + servers),
                    {"--optimizer", optimizer, "--strategy", "ps", "--servers", servers}))),
                expected)
          << optimizer << " on " << servers;
    }
  }
}

TEST(DenseServers, EveryModeTrains) {
  const TempDir dir;
  for (const std::string mode : {"async", "half-async", "geo", "ssp"}) {
    const CommandResult result =
        RunPaceline(Training(dir / mode, {"--strategy", "ps", "--mode", mode, "--servers", "2",
                                          "--optimizer", "sgd", "--geo-steps", "7"}));
    ASSERT_EQ(result.state.code, 0) << result.err;
    EXPECT_EQ(LastJson(result.out)["steps"], 20);
  }
}

TEST(DenseServers, AServerKilledInTheMiddleChangesNothing) {
  const TempDir dir;
  const std::string expected = HashOf(RunPaceline(Training(dir / "calm", {"--strategy", "ps"})));
  EXPECT_EQ(
      HashOf(RunPaceline(Training(dir / "killed", {"--strategy", "ps", "--chaos",
                                                   "kill=server:0@step5,kill=trainer:1@step10"}))),
      expected);
}

TEST(DenseServers, WhatServersCannotDoIsRefused) {
  const TempDir dir;
  ExpectError(RunPaceline(Training(dir / "clip", {"--strategy", "ps", "--clip-norm", "1"})), 2,
              "--clip-norm");
}

}  // namespace
}  // namespace paceline::testing
