// Trainers that come and go, and servers that are away, as real processes.
#include <signal.h>

#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/processes.h"
#include "support/program.h"
#include "system/server_runs.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kDeadline = std::chrono::seconds(240);  // only against hanging
constexpr std::uint64_t kElasticSteps = 400;

// Samples of one trainer's batch, of which a step has two.
std::vector<std::string> ElasticTraining(const std::string& run,
                                         const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{
      "--workers",   "1:2", "--mode",         "async", "--steps", std::to_string(kElasticSteps),
      "--heartbeat", "0.1", "--dead-timeout", "1"};
  flags.insert(flags.end(), more.begin(), more.end());
  return ServerTraining(run, flags);
}

nlohmann::json AuditOf(const std::string& run) {
  const CommandResult audit = RunPaceline({"audit", run, "--json"});
  EXPECT_EQ(audit.state.code, 0) << RunPaceline({"audit", run}).out;
  return LastJson(audit.out);
}

// The whole run, every push on every server, and the proof of it.
nlohmann::json ExpectExactlyOnce(const CommandResult& result, const std::string& run,
                                 std::uint64_t steps_per_push = 1) {
  const nlohmann::json json =
      ExpectComplete(result, run, kTrainers * kElasticSteps / steps_per_push);
  nlohmann::json audit = AuditOf(run);
  EXPECT_EQ(audit["ended"], "complete");
  EXPECT_EQ(audit["samples"], json["samples"]);
  EXPECT_EQ(audit["servers"], kServers);
  EXPECT_GT(audit["leases"], 2);
  return audit;
}

class ElasticServersTest : public ::testing::Test {
 protected:
  TempDir dir_{TempDir::Place::kMemory};
};

TEST_F(ElasticServersTest, EveryAsynchronousModeLendsItsSamples) {
  const std::vector<std::pair<std::vector<std::string>, std::uint64_t>> cases{
      {{"--mode", "async"}, 1},
      {{"--mode", "async", "--pull-ahead"}, 1},
      {{"--mode", "half-async", "--merge", "4"}, 4},
      {{"--mode", "geo", "--geo-steps", "10", "--optimizer", "sgd"}, 10}};
  for (const auto& [flags, steps_per_push] : cases) {
    SCOPED_TRACE(flags[1]);
    const std::string run = dir_ / fmt::format("{}-{}", flags[1], flags.size());
    const CommandResult result = RunPaceline(ElasticTraining(run, flags));
    ExpectExactlyOnce(result, run, steps_per_push);
    const nlohmann::json json = LastJson(result.out);
    EXPECT_EQ(json["steps"], kElasticSteps);
    EXPECT_GT(json["auc"], 0.4);
  }
}

TEST_F(ElasticServersTest, TrainersDieJoinAndLeaveAndNoSampleIsLostOrRepeated) {
  const std::string run = dir_ / "run";
  const CommandResult result = RunPaceline(ElasticTraining(
      run, {"--start-workers", "1", "--chaos",
            "join=@step20,kill=coordinator@step25,kill=trainer:0@step60,leave=trainer:1@step180,"
            "kill=server:1@step200,join=@step220"}));
  EXPECT_THAT(result.err, HasSubstr("after the chaos: audit: exactly once: OK"));
  EXPECT_THAT(result.err, HasSubstr("trainer 0 was ended by SIGKILL; starting it again"));
  const nlohmann::json audit = ExpectExactlyOnce(result, run);
  EXPECT_GE(audit["leases_handed_on"], 1) << result.err;
  EXPECT_EQ(audit["coordinator_starts"], 2);
}

TEST_F(ElasticServersTest, AStoppedRunGoesOnWithItsLeases) {
  const std::string run = dir_ / "run";
  Subprocess child = StartPaceline(ElasticTraining(run, {"--steps", "1500"}));
  const std::string events = run + "/events.jsonl";
  while (!std::filesystem::exists(events) ||
         ReadFile(events).find("\"type\": \"step\"") == std::string::npos) {
    std::this_thread::yield();
  }
  child.Signal(SIGINT);
  const auto rest = child.ReadAll(kDeadline);
  const auto state = child.Wait(kDeadline);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 0) << rest->out;
  EXPECT_EQ(AuditOf(run)["ended"], "interrupted");
  EXPECT_THAT(RunPaceline({"train", "--resume", "--run", run, "--steps", "2000"}).err,
              HasSubstr("samples"));
  const CommandResult resumed = RunPaceline({"train", "--resume", "--run", run, "--json"});
  EXPECT_EQ(resumed.state.code, 0) << resumed.err;
  EXPECT_EQ(AuditOf(run)["ended"], "complete");
  EXPECT_EQ(AuditOf(run)["pushes"], 3000);
}

// Both trainers get the samples that the stopped server acknowledges later.
TEST_F(ElasticServersTest, TrainersWaitOrGoOnStaleWhileAServerIsAway) {
  for (const char* away : {"wait", "stale"}) {
    SCOPED_TRACE(away);
    const std::string run = dir_ / away;
    const CommandResult result =
        RunPaceline(ElasticTraining(run, {"--server-away", away, "--chaos",
                                          "stop=server:0@step60:2500ms,kill=server:1@step120"}));
    ExpectExactlyOnce(result, run);
    const bool stale = std::string_view(away) == "stale";
    const auto went_on = HasSubstr("going on with the values pulled last");
    const std::string log = ReadFile(run + "/log.txt") + result.err;
    if (stale) {
      EXPECT_THAT(log, went_on);
    } else {
      EXPECT_THAT(log, Not(went_on));
    }
  }
}

TEST_F(ElasticServersTest, AServerThatStaysAwayEndsTheRun) {
  for (const char* away : {"wait", "stale"}) {
    SCOPED_TRACE(away);
    const CommandResult result = RunPaceline(
        ElasticTraining(dir_ / away, {"--server-away", away, "--server-timeout", "0.5",
                                      "--restarts", "0", "--chaos", "stop=server:0@step60:4s"}));
    EXPECT_EQ(result.state.code, 75) << result.err;
    EXPECT_THAT(result.err, HasSubstr("server 0"));
  }
}

TEST_F(ElasticServersTest, WhatCannotBeElasticIsRefused) {
  ExpectError(RunPaceline(ElasticTraining(dir_ / "a", {"--mode", "sync"})), 2, "--mode sync");
  ExpectError(RunPaceline(ElasticTraining(dir_ / "a", {"--mode", "ssp"})), 2, "--mode ssp");
  ExpectError(RunPaceline(ElasticTraining(dir_ / "a", {"--delay-compensation", "0.1"})), 2,
              "--delay-compensation");
  ExpectError(RunPaceline(ServerTraining(dir_ / "a", {"--server-away", "stale"})), 2,
              "--server-away stale");
}

}  // namespace
}  // namespace paceline::testing
