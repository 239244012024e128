// Elastic runs as real processes: workers and the coordinator die, hang, are cut off, leave and
// join, and the answer stays the same. T numbers are those of the fault tests in docs/elastic.md.
#include <signal.h>

#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "disk/run_lock.h"
#include "support/elastic_run.h"
#include "support/processes.h"
#include "support/program.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Elastic, WithoutFaultsTheBitsAreThoseOfAFixedGroup) {
  ExpectSameBits("1:3", "");
  ExpectSameBits("1:2", "", {"--shared-memory", "off"});
}

// T01
TEST(Elastic, AKilledWorkerIsReplaced) {
  ExpectSameBits("1:3", "kill=worker:1@step20");
  ExpectSameBits("1:3", "kill=worker:0@step7,kill=worker:2@step33", {"--shared-memory", "off"});
}

// T01: everybody dies; the newest checkpoint is where it goes on.
TEST(Elastic, WhenAllDieTheCheckpointIsWhereItGoesOn) {
  ExpectSameBits("1:2", "kill=worker:0@step45,kill=worker:1@step45");
}

// T02
TEST(Elastic, BelowTheMinimumItWaitsForAReplacement) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result =
      RunPaceline(Elastic(run, "2:3", {"--chaos", "kill=worker:0@step10,kill=worker:1@step10"}));
  EXPECT_EQ(HashOf(result), UndisturbedHash());
  EXPECT_GE(Count(run + "/members.jsonl", "waiting"), 1U);
  ExpectInvariants(run);
}

// T02
TEST(Elastic, WithoutAReplacementItEndsWithACheckpoint) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result =
      RunPaceline(Elastic(run, "2:2",
                          {"--restarts", "0", "--elastic-timeout", "1", "--checkpoint-every",
                           "1000", "--chaos", "kill=worker:0@step10"}));
  EXPECT_EQ(result.state.code, 14) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1 of at least 2 workers for 1 s"));
  ASSERT_TRUE(std::filesystem::exists(run + "/checkpoints"));
  EXPECT_TRUE(ProcessesOf(run).empty());
  const CommandResult resumed =
      RunPaceline({"train", "--run", run, "--resume", "--json", "--restarts", "100"});
  EXPECT_EQ(HashOf(resumed), UndisturbedHash()) << resumed.err;
  ExpectInvariants(run);
}

// T03
TEST(Elastic, AShortPauseEvictsNobodyALongOneDoes) {
  const TempDir dir;
  const std::string brief = dir / "brief", lasting = dir / "lasting";
  const CommandResult one =
      RunPaceline(Elastic(brief, "1:3", {"--chaos", "stop=worker:1@step20:600ms"}));
  EXPECT_EQ(HashOf(one), UndisturbedHash());
  EXPECT_EQ(Count(brief + "/members.jsonl", "evict"), 0U);
  const CommandResult two = RunPaceline(
      Elastic(lasting, "1:3", {"--chaos", "stop=worker:1@step20:5s", "--steps", "400"}));
  EXPECT_EQ(two.state.code, 0) << two.err;
  EXPECT_GE(Count(lasting + "/members.jsonl", "evict"), 1U);
  ExpectInvariants(lasting);
}

// T04 without network namespaces: a worker whose network is gone for longer than the dead time.
TEST(Elastic, AWorkerThatIsCutOffIsGivenUpAndReplaced) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result = RunPaceline(
      Elastic(run, "1:3", {"--chaos", "cut=worker:0@step20:3s", "--shared-memory", "off"}));
  EXPECT_EQ(HashOf(result), UndisturbedHash()) << result.err;
  EXPECT_GE(Count(run + "/members.jsonl", "evict"), 1U);
  ExpectInvariants(run);
}

// T06
TEST(Elastic, AWorkerThatIsAskedToLeaveRepeatsNothing) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result =
      RunPaceline(Elastic(run, "1:3", {"--chaos", "leave=worker:1@step20"}));
  EXPECT_EQ(HashOf(result), UndisturbedHash()) << result.err;
  EXPECT_EQ(Count(run + "/members.jsonl", "lost"), 0U);
  const nlohmann::json audit = LastJson(RunPaceline({"audit", run, "--json"}).out);
  EXPECT_EQ(audit["repeated_steps"], 0);
  ExpectInvariants(run);
}

// T07
TEST(Elastic, AWorkerJoinsInTheMiddle) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result = RunPaceline(
      Elastic(run, "1:3",
              {"--start-workers", "1", "--steps", "300", "--chaos", "join=@step10,join=@step40"}));
  EXPECT_EQ(result.state.code, 0) << result.err;
  EXPECT_GE(Count(run + "/events.jsonl", "view"), 2U);
  const nlohmann::json audit = LastJson(RunPaceline({"audit", run, "--json"}).out);
  EXPECT_EQ(audit["repeated_steps"], 0);
  ExpectInvariants(run);
}

// T08
TEST(Elastic, TrainingGoesOnWithoutACoordinatorWhichThenTakesItsWorkersBack) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result =
      RunPaceline(Elastic(run, "1:3", {"--chaos", "kill=coordinator@step20"}));
  EXPECT_EQ(HashOf(result), UndisturbedHash()) << result.err;
  EXPECT_EQ(Count(run + "/events.jsonl", "view"), 1U) << "no generation was needed";
  EXPECT_EQ(Count(run + "/members.jsonl", "coordinator"), 2U);
  ExpectInvariants(run);
}

TEST(Elastic, WorkersDieWhileTheCoordinatorIsAway) {
  ExpectSameBits("1:3", "kill=coordinator@step20,kill=worker:1@step20");
}

// T17
TEST(Elastic, ASecondStartIsRefused) {
  const TempDir dir;
  const std::string run = dir / "run";
  std::filesystem::create_directories(run);
  const auto lock = disk::RunLock::Acquire(run, SystemClock());
  ASSERT_THAT(lock, IsOk());
  const CommandResult second = RunPaceline(Elastic(run, "1:2"));
  ExpectError(second, 18, std::to_string(::getpid()));
}

// T18
TEST(Elastic, ItsFlagsAreChecked) {
  const TempDir dir;
  ExpectError(RunPaceline(Elastic(dir / "a", "3:2")), 2, "3:2");
  ExpectError(RunPaceline(Elastic(dir / "b", "1:3", {"--engine", "mpi"})), 2, "mpi");
  ExpectError(RunPaceline(Elastic(dir / "c", "1:3", {"--chaos", "burn=worker:1@step3"})), 2,
              "burn=worker:1@step3");
  ExpectError(RunPaceline(SmallTraining(dir / "d", {"--workers", "2", "--chaos", "join=@step1"})),
              2, "MIN:MAX");
}

// T20, a short one.
TEST(Elastic, RandomFaultsLeaveTheSameBits) {
  const std::string seed = std::to_string(TestSeed() % 1'000);
  ExpectSameBits("1:3", "random=" + seed + ":6");
}

TEST(Elastic, GlooIsRebuiltForEveryView) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result =
      RunPaceline(Elastic(run, "1:2", {"--engine", "gloo", "--chaos", "kill=worker:1@step20"}));
  EXPECT_EQ(result.state.code, 0) << result.err;
  ExpectInvariants(run);
}

// T19
TEST(Elastic, WhatNoReplacementCanMendEndsTheRun) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result = RunPaceline(Elastic(run, "1:3", {"--nan-policy", "stop"}),
                                           {{"PACELINE_FAULTS", "rank=1,nan:step=30"}});
  EXPECT_EQ(result.state.code, 15) << result.err;
  EXPECT_THAT(result.err, HasSubstr("not finite"));
  EXPECT_TRUE(ProcessesOf(run).empty());
}

// T06, while there is nothing to do.
TEST(Elastic, AWorkerThatWaitsForOthersCanBeAskedToLeave) {
  const TempDir dir;
  const std::string run = dir / "run";
  Subprocess child = StartPaceline(
      Elastic(run, "2:2",
              {"--restarts", "0", "--elastic-timeout", "4", "--chaos", "kill=worker:0@step10"}));
  pid_t survivor = 0;
  while (survivor == 0) {
    const auto line = child.ReadLine(120s);
    ASSERT_THAT(line, IsOk());
    if (line->find("no restarts left") == std::string::npos) continue;
    nlohmann::json status;
    do {
      const auto written = Records(run + "/status.json");
      if (!written.empty()) status = written.back();
    } while (status.value("state", "") != "waiting");
    survivor = status["members"][0]["pid"].get<pid_t>();
  }
  ::kill(survivor, SIGTERM);
  const auto state = child.Wait(120s);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 14);
  EXPECT_EQ(Count(run + "/members.jsonl", "leave"), 1U);
  EXPECT_EQ(Count(run + "/members.jsonl", "evict"), 0U);
  EXPECT_TRUE(ProcessesOf(run).empty());
}

TEST(Elastic, CtrlCBeforeTheFirstStepEndsEverything) {
  const TempDir dir;
  const std::string run = dir / "run";
  Subprocess child = StartPaceline(Elastic(run, "1:2"));
  while (ProcessesOf(run).size() < 4) std::this_thread::yield();  // launcher, coordinator, workers
  child.Signal(SIGINT);
  const auto state = child.Wait(120s);
  ASSERT_THAT(state, IsOk());
  EXPECT_TRUE(state->code == 0 || state->code == 130) << state->Describe();
  EXPECT_TRUE(ProcessesOf(run).empty());
}

TEST(Elastic, CtrlCSavesAndTheRunCanGoOn) {
  const TempDir dir;
  const std::string run = dir / "run";
  Subprocess child = StartPaceline(Elastic(run, "1:2", {"--steps", "100000"}));
  for (;;) {
    const auto line = child.ReadLine(120s);
    ASSERT_THAT(line, IsOk());
    if (line->find("/100000") != std::string::npos) break;
  }
  child.Signal(SIGINT);
  const auto state = child.Wait(60s);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 0);
  EXPECT_TRUE(ProcessesOf(run).empty());
  const auto done = Records(run + "/events.jsonl").back();
  ASSERT_EQ(done["type"], "end");
  const auto steps = done["step"].get<std::uint64_t>() + 10;
  const CommandResult resumed =
      RunPaceline({"train", "--run", run, "--resume", "--json", "--steps", std::to_string(steps)});
  EXPECT_EQ(resumed.state.code, 0) << resumed.err;
  ExpectInvariants(run);
}

// T08
TEST(Elastic, ADamagedLogOfTheCoordinatorIsRefusedWithItsOwnExitCode) {
  const TempDir dir;
  const std::string run = dir / "run", log = run + "/coordinator.log";
  const CommandResult first = RunPaceline(Elastic(run, "1:2", {"--chaos", "kill=worker:1@step5"}));
  ASSERT_EQ(first.state.code, 0) << first.err;
  std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(30);  // in the first record; others follow
  file.put('\x7f');
  file.close();
  const CommandResult resumed =
      RunPaceline({"train", "--run", run, "--resume", "--json", "--steps", "90"});
  EXPECT_EQ(resumed.state.code, 13) << resumed.err;
  EXPECT_THAT(resumed.err, AllOf(HasSubstr(log + ":"), HasSubstr("damaged")));
  EXPECT_TRUE(ProcessesOf(run).empty());
}

}  // namespace
}  // namespace paceline::testing
