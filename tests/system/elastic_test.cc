// Elastic runs as real processes: workers and the coordinator die, hang, are cut off, leave and
// join, and the answer stays the same. T numbers are those of the fault tests in docs/elastic.md.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "disk/run_lock.h"
#include "support/program.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Elastic(const std::string& run, const std::string& workers,
                                 std::vector<std::string> more = {}) {
  std::vector<std::string> settings{"--workers",
                                    workers,
                                    "--shards",
                                    "4",
                                    "--batch",
                                    "4",
                                    "--steps",
                                    "80",
                                    "--heartbeat",
                                    "0.2",
                                    "--dead-timeout",
                                    "2",
                                    "--reproducible",
                                    "--checkpoint-every",
                                    "20"};
  settings.insert(settings.end(), more.begin(), more.end());
  return SmallTraining(run, settings);
}

std::string Hash(const CommandResult& result) {
  EXPECT_EQ(result.state.code, 0) << result.err;
  return result.state.code == 0 ? LastJson(result.out)["params_hash"].get<std::string>() : "";
}

std::vector<nlohmann::json> Records(const std::string& path) {
  std::vector<nlohmann::json> records;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object()) records.push_back(std::move(record));
  }
  return records;
}

std::size_t Count(const std::string& path, const std::string& type) {
  std::size_t count = 0;
  for (const auto& record : Records(path)) count += record["type"] == type ? 1 : 0;
  return count;
}

// Whoever has this run on its command line.
std::vector<pid_t> ProcessesOf(const std::string& run) {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline");
    const std::string line(std::istreambuf_iterator<char>(file), {});
    if (line.find(run) != std::string::npos) pids.push_back(std::stoi(name));
  }
  return pids;
}

// Every sample once, generations in order (O2, O6), nothing left behind (O4).
void ExpectInvariants(const std::string& run) {
  const CommandResult audit = RunPaceline({"audit", run, "--json"});
  EXPECT_EQ(audit.state.code, 0) << audit.out << audit.err;
  EXPECT_TRUE(ProcessesOf(run).empty());
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".tmp")));
  }
}

// A run in which nothing happens.
const std::string& UndisturbedHash() {
  static const std::string hash = [] {
    const TempDir dir;
    return Hash(RunPaceline(
        SmallTraining(dir / "plain", {"--workers", "4", "--shards", "4", "--batch", "4", "--steps",
                                      "80", "--reproducible", "--checkpoint-every", "20"})));
  }();
  return hash;
}

// Runs with faults and expects the bits of a run without.
void ExpectSameBits(const std::string& workers, const std::string& chaos,
                    const std::vector<std::string>& more = {}) {
  const TempDir dir;
  std::vector<std::string> settings{"--chaos", chaos};
  settings.insert(settings.end(), more.begin(), more.end());
  const CommandResult result = RunPaceline(Elastic(dir / "run", workers, settings));
  EXPECT_EQ(Hash(result), UndisturbedHash()) << chaos << "\n" << result.err;
  ExpectInvariants(dir / "run");
}

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
  EXPECT_EQ(Hash(result), UndisturbedHash());
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
  EXPECT_EQ(Hash(resumed), UndisturbedHash()) << resumed.err;
  ExpectInvariants(run);
}

// T03
TEST(Elastic, AShortPauseEvictsNobodyALongOneDoes) {
  const TempDir dir;
  const std::string brief = dir / "brief", lasting = dir / "lasting";
  const CommandResult one =
      RunPaceline(Elastic(brief, "1:3", {"--chaos", "stop=worker:1@step20:600ms"}));
  EXPECT_EQ(Hash(one), UndisturbedHash());
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
  EXPECT_EQ(Hash(result), UndisturbedHash()) << result.err;
  EXPECT_GE(Count(run + "/members.jsonl", "evict"), 1U);
  ExpectInvariants(run);
}

// T06
TEST(Elastic, AWorkerThatIsAskedToLeaveRepeatsNothing) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result =
      RunPaceline(Elastic(run, "1:3", {"--chaos", "leave=worker:1@step20"}));
  EXPECT_EQ(Hash(result), UndisturbedHash()) << result.err;
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
  EXPECT_EQ(Hash(result), UndisturbedHash()) << result.err;
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

}  // namespace
}  // namespace paceline::testing
