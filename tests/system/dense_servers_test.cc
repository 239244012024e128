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

TEST(DenseServers, ServersKnowTheWholeRecipeOfAdamW) {
  const TempDir dir;
  const std::vector<std::string> recipe{"--optimizer",    "adamw", "--beta1",         "0.8",
                                        "--beta2",        "0.98",  "--epsilon",       "1e-6",
                                        "--weight-decay", "0.5",   "--decay-exclude", "norm-bias",
                                        "--loss-scale",   "256"};
  std::vector<std::string> on_servers = recipe;
  on_servers.insert(on_servers.end(), {"--strategy", "ps", "--servers", "2"});
  EXPECT_EQ(HashOf(RunPaceline(Training(dir / "servers", on_servers))),
            HashOf(RunPaceline(Training(dir / "group", recipe))));
}

TEST(DenseServers, ServersKnowTheWholeRecipeOfFtrl) {
  const TempDir dir;
  const std::vector<std::string> recipe{"--optimizer",    "ftrl", "--ftrl-l1",       "0.01",
                                        "--weight-decay", "0.5",  "--decay-exclude", "norm-bias"};
  std::vector<std::string> on_servers = recipe;
  on_servers.insert(on_servers.end(),
                    {"--strategy", "ps", "--servers", "2", "--chaos", "kill=server:0@step5"});
  const std::string expected = HashOf(RunPaceline(Training(dir / "group", recipe)));
  EXPECT_EQ(HashOf(RunPaceline(Training(dir / "servers", on_servers))), expected);
  std::vector<std::string> everything = recipe;
  everything.back() = "none";
  EXPECT_NE(HashOf(RunPaceline(Training(dir / "everything", everything))), expected);
}

TEST(DenseServers, SyncTrainersStopEarlyTogether) {
  const TempDir dir;
  const CommandResult result =
      RunPaceline(Training(dir / "run", {"--strategy", "ps", "--steps", "60", "--eval-samples",
                                         "10", "--eval-every", "1", "--patience", "1"}));
  ASSERT_EQ(result.state.code, 0) << result.err;
  const auto summary = LastJson(result.out);
  EXPECT_EQ(summary["stopped_early"], true);
  EXPECT_LT(summary["steps"], 60);
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

// Trainers say it with a push; a server looks every few milliseconds whether one did.
TEST(DenseServers, CheckpointsOfTheRunAreSnapshotsOfTheServers) {
  const TempDir dir;
  const std::string run = dir / "run";
  HashOf(RunPaceline(Training(run, {"--strategy", "ps", "--checkpoint-every", "4"})));
  const auto record = nlohmann::json::parse(ReadFile(run + "/servers/server-0.json"));
  EXPECT_GE(record["snapshots"], 2);  // one of them is the last
}

// Over TCP the forward pass begins with the first layer that has arrived, and a server that dies
// meanwhile sends what is missing when it is back.
TEST(DenseServers, ParametersThatComeLayerByLayerGiveTheSameBits) {
  const TempDir dir;
  const auto hash = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"--strategy", "ps", "--servers", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return HashOf(RunPaceline(Training(dir / name, arguments)));
  };
  const std::string expected = hash("memory", {});
  EXPECT_EQ(hash("tcp", {"--shared-memory", "off"}), expected);
  EXPECT_EQ(hash("killed", {"--shared-memory", "off", "--chaos",
                            "kill=server:1@step5,kill=trainer:0@step10"}),
            expected);
}

// Servers have seen most of the push when its last gradient is spoilt: the first tensor's.
TEST(DenseServers, AGradientThatIsNotFiniteIsTakenBack) {
  const TempDir dir;
  const auto hash = [&](const std::string& servers, const std::string& faults) {
    return HashOf(RunPaceline(Training(dir / (servers + (faults.empty() ? "-calm" : "-nan")),
                                       {"--strategy", "ps", "--servers", servers}),
                              {{"PACELINE_FAULTS", faults}}));
  };
  const std::string spoilt = hash("1", "rank=1,nan:step=5");
  EXPECT_EQ(hash("2", "rank=1,nan:step=5"), spoilt);
  EXPECT_NE(hash("1", ""), spoilt);
}

TEST(DenseServers, ARunThatGoesOnIsTheSameRunAndMayBeLonger) {
  const TempDir dir;
  const std::string run = dir / "run";
  const std::string expected = HashOf(RunPaceline(Training(dir / "whole", {"--strategy", "ps"})));
  HashOf(RunPaceline(Training(run, {"--strategy", "ps", "--steps", "7"})));
  const auto go_on = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train", "--resume", "--run", run, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunPaceline(arguments);
  };
  const auto expect_refused = [&](const std::vector<std::string>& flags, const char* difference) {
    const CommandResult refused = go_on(flags);
    EXPECT_EQ(refused.state.code, 10) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(difference));
  };
  expect_refused({"--lr", "0.02", "--steps", "20"}, "differ: lr: 0.01 / 0.02");
  expect_refused({"--augment", "none"}, "differ: augment: standard / none");
  expect_refused({"--train-samples", "41"}, "differ: data: ");
  expect_refused({"--mode", "ssp"}, "differ: mode: sync / ssp");
  // What was refused has left nothing behind: the flags of before are still those of the run.
  const CommandResult longer = go_on({"--steps", "20"});
  EXPECT_EQ(HashOf(longer), expected);
  EXPECT_EQ(LastJson(longer.out)["resumed_from_step"], 7);
}

TEST(DenseServers, WhatServersCannotDoIsRefused) {
  const TempDir dir;
  ExpectError(RunPaceline(Training(dir / "clip", {"--strategy", "ps", "--clip-norm", "1"})), 2,
              "--clip-norm");
  ExpectError(RunPaceline(Training(dir / "lamb", {"--strategy", "ps", "--optimizer", "lamb"})), 2,
              "--optimizer lamb needs the norm of whole tensors");
}

}  // namespace
}  // namespace paceline::testing
