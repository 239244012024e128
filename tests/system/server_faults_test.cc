// Parameter servers and trainers that are killed, damaged, or meant for somebody else.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/processes.h"
#include "support/program.h"
#include "system/server_runs.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;

class ServerFaultsTest : public ::testing::Test {
 protected:
  TempDir dir_{TempDir::Place::kMemory};
};

// Whoever is killed, no push is lost and none counts twice. In mode sync no bit differs, unless a
// server and a trainer die at nearly the same moment (docs/parameter-server.md, "Durability"),
// which the random faults may do.
TEST_F(ServerFaultsTest, KilledProcessesChangeNothing) {
  const std::string expected = HashOf(RunPaceline(ServerTraining(dir_ / "whole")));
  const std::string random = fmt::format("random={}:6", TestSeed() % 1'000'000);
  const std::vector<std::pair<const char*, std::string>> cases{
      {"sync", "kill=server:0@step5,kill=server:1@step20,kill=server:1@step35"},
      {"sync", "kill=trainer:1@step7,kill=trainer:0@step25"},
      {"sync", random},
      {"async", "kill=server:1@step5,kill=trainer:1@step20,kill=server:0@step40"},
      {"async", random}};
  for (const auto& [mode, chaos] : cases) {
    const std::string run = dir_ / fmt::format("{}-{}", mode, chaos);
    const CommandResult result =
        RunPaceline(ServerTraining(run, {"--mode", mode, "--chaos", chaos}));
    SCOPED_TRACE(fmt::format("{} with {}\n{}", mode, chaos, result.err));
    EXPECT_THAT(result.err, HasSubstr("starting it again"));
    const nlohmann::json json = ExpectComplete(result, run, kTrainers * kSteps);
    if (std::string_view(mode) == "sync" && chaos != random) {
      EXPECT_EQ(json["params_hash"], expected);
    }
  }
}

// Which rows there are is a function of the pushes alone: not of kills, servers or where rows lie.
TEST_F(ServerFaultsTest, RowsThatComeAndGoAreTheSameWhoeverIsKilled) {
  const auto training = [&](const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> flags{"--admit-count",     "2",      "--evict-after", "8",
                                   "--table-optimizer", "adagrad"};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunPaceline(ServerTraining(run, flags));
  };
  const auto evicted = [&](const std::string& run, std::uint64_t servers) {
    std::uint64_t rows = 0;
    for (std::uint64_t i = 0; i < servers; ++i) {
      rows += ServerRecordOf(run, i)["tables"][0]["evicted"].get<std::uint64_t>();
    }
    return rows;
  };
  const std::string whole = dir_ / "whole", killed = dir_ / "killed", disk = dir_ / "disk";
  const std::string expected =
      ExpectComplete(training(whole, {}), whole, kTrainers * kSteps)["params_hash"];
  const CommandResult result = training(
      killed,
      {"--chaos",
       "kill=server:0@step12,kill=server:1@step20,kill=trainer:1@step30,kill=server:0@step41"});
  EXPECT_THAT(result.err, HasSubstr("starting it again"));
  EXPECT_EQ(ExpectComplete(result, killed, kTrainers * kSteps)["params_hash"], expected);
  EXPECT_EQ(ExpectComplete(training(disk, {"--servers", "1", "--table-store", "rocksdb", "--chaos",
                                           "kill=server:0@step25"}),
                           disk, kTrainers * kSteps, 1)["params_hash"],
            expected);
  EXPECT_GT(evicted(whole, kServers), 0U);
  EXPECT_EQ(evicted(killed, kServers), evicted(whole, kServers));
  EXPECT_EQ(evicted(disk, 1), evicted(whole, kServers));
  EXPECT_THAT(RunPaceline({"status", whole}).out, HasSubstr("ADMITTED   EVICTED   WAITING"));
  const CommandResult other =
      RunPaceline({"train", "--resume", "--run", whole, "--steps", "70", "--evict-after", "9"});
  EXPECT_EQ(other.state.code, 10) << other.err;
  EXPECT_THAT(other.err, HasSubstr("evict-after: 8 / 9"));
}

TEST_F(ServerFaultsTest, WithoutALogAKilledServerEndsTheRun) {
  const std::string run = dir_ / "run";
  const CommandResult result = RunPaceline(
      ServerTraining(run, {"--wal", "off", "--mode", "async", "--chaos", "kill=server:1@step20"}));
  EXPECT_EQ(result.state.code, 13) << result.err;
  EXPECT_THAT(result.err, ::testing::ContainsRegex("server 1 .*: it has lost [0-9]+ acknowledged "
                                                   "pushes of trainer [01]; .*--wal off"));
  EXPECT_THAT(ProcessesOf(run), ::testing::IsEmpty());
  const CommandResult resumed = RunPaceline({"train", "--resume", "--run", run, "--json"});
  ExpectComplete(resumed, run, kTrainers * kSteps);
}

// Trains until that step; then the launcher is killed with everybody: nobody makes a snapshot.
void TrainAndKillAll(const std::string& run, const std::vector<std::string>& flags,
                     std::uint64_t step) {
  Subprocess child = StartPaceline(ServerTraining(run, flags));
  const std::string events = run + "/events.jsonl";
  while (!std::filesystem::exists(events) ||
         ReadFile(events).find(fmt::format("\"step\": {},", step)) == std::string::npos) {
    std::this_thread::yield();
  }
  child.Signal(SIGKILL);
  ASSERT_THAT(child.Wait(std::chrono::seconds(240)), IsOk());
  while (!ProcessesOf(run).empty()) std::this_thread::yield();  // they die with their parent
}

// The newest of the files in a server's folder that begin and end so.
std::string NewestFile(const std::string& run, std::uint64_t server, const std::string& begin,
                       const std::string& end) {
  std::string newest;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("{}/servers/server-{}", run, server))) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(begin) || !name.ends_with(end)) continue;
    newest = std::max(newest, entry.path().string());
  }
  return newest;
}

void FlipABit(const std::string& path) {
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(middle);
  const int byte = file.get();
  file.seekp(middle);
  file.put(static_cast<char>(byte ^ 0x10));
}

// Changes one byte in the middle of the log.
TEST_F(ServerFaultsTest, ADamagedLogIsNotIgnored) {
  const std::string run = dir_ / "run";
  TrainAndKillAll(run, {"--steps", "2000"}, 50);
  const std::string log = NewestFile(run, 1, "wal-", ".log");
  ASSERT_NE(log, "");
  FlipABit(log);
  const CommandResult result =
      RunPaceline({"train", "--resume", "--run", run, "--steps", "2000", "--json"});
  EXPECT_EQ(result.state.code, 13) << result.err;
  EXPECT_THAT(result.err, HasSubstr(log + ":"));
  EXPECT_THAT(result.err, HasSubstr("server 1 ended with exit code 13; ending the run"));
}

// What a crash of the machine leaves of a log: everything that was acknowledged, and half of a
// record that never was.
TEST_F(ServerFaultsTest, ATornTailOfTheLogIsCutOff) {
  const std::vector<std::string> flags{"--steps", "300"};
  const std::string expected = HashOf(RunPaceline(ServerTraining(dir_ / "whole", flags)));
  const std::string run = dir_ / "run";
  TrainAndKillAll(run, flags, 50);
  const std::string log = NewestFile(run, 1, "wal-", ".log");
  ASSERT_NE(log, "");
  const std::string whole = ReadFile(log);
  WriteFile(log,
            whole + whole.substr(20, 40));  // behind the header the job begins, a longer record
  const CommandResult resumed =
      RunPaceline({"train", "--resume", "--run", run, "--steps", "300", "--json"});
  EXPECT_EQ(ExpectComplete(resumed, run, kTrainers * 300)["params_hash"], expected);
  EXPECT_THAT(resumed.err, ::testing::ContainsRegex(
                               "server 1. recovered in [0-9.]+ s: no snapshot and [0-9]+ pushes"));
  EXPECT_TRUE(std::filesystem::exists(log + ".broken"));
  EXPECT_GT(ServerRecordOf(run, 1)["recovery_seconds"], 0);
  EXPECT_GT(ServerRecordOf(run, 1)["rss_bytes"], 1'000'000);
}

// The one before it and its log have the same.
TEST_F(ServerFaultsTest, ADamagedSnapshotIsReplacedByTheOneBefore) {
  const std::vector<std::string> flags{"--steps", "1500", "--checkpoint-every", "300"};
  const std::string expected = HashOf(RunPaceline(ServerTraining(dir_ / "whole", flags)));
  const std::string run = dir_ / "run";
  ExpectComplete(RunPaceline(ServerTraining(run, {"--steps", "1000", "--checkpoint-every", "300"})),
                 run, kTrainers * 1000);
  const std::string snapshot = NewestFile(run, 1, "snapshot-", "");
  ASSERT_NE(snapshot, "");
  FlipABit(snapshot);
  const CommandResult resumed =
      RunPaceline({"train", "--resume", "--run", run, "--steps", "1500", "--json"});
  EXPECT_EQ(ExpectComplete(resumed, run, kTrainers * 1500)["params_hash"], expected);
  EXPECT_THAT(resumed.err, HasSubstr(snapshot + ".broken, and an older snapshot"));
  EXPECT_TRUE(std::filesystem::exists(snapshot + ".broken"));
}

TEST_F(ServerFaultsTest, WithoutALogTheLastCheckpointIsWhatIsLeft) {
  const std::string run = dir_ / "run";
  TrainAndKillAll(run, {"--steps", "3000", "--wal", "off", "--checkpoint-every", "100"}, 2000);
  const CommandResult resumed = RunPaceline({"train", "--resume", "--run", run, "--json"});
  const nlohmann::json json = ExpectComplete(resumed, run, kTrainers * 3000);
  EXPECT_GT(json["resumed_from_step"], 0);
}

TEST_F(ServerFaultsTest, MistakesAreOneLine) {
  const std::string run = dir_ / "run";
  WriteFile(dir_ / "secret", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
  WriteFile(dir_ / "other", "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
  for (const char* name : {"secret", "other"}) {
    std::filesystem::permissions(dir_ / name, std::filesystem::perms::owner_read);
  }
  const auto server = Subprocess::Start(
      {.argv = {Program("paceline"), "server", "--run", run, "--bind", "127.0.0.1:0"},
       .environment = {{"PACELINE_SECRET_FILE", dir_ / "secret"}}});
  ASSERT_THAT(server, IsOk());
  while (!std::filesystem::exists(run + "/servers/server-0.json")) std::this_thread::yield();
  const std::string endpoint = ServerRecordOf(run, 0)["endpoint"];
  ExpectError(RunPaceline({"server", "--run", dir_ / "second", "--bind", endpoint}), 75, "in use");
  ExpectError(RunPaceline({"server", "--run", run}), 18, std::to_string(server->pid()));
  const auto train = [&](const std::string& secret, const std::string& servers,
                         const char* timeout) {
    return RunPaceline({"train", "ctr-dnn-small", "--strategy", "ps", "--run", dir_ / "trainer",
                        "--steps", "2", "--server-timeout", timeout},
                       {{"PACELINE_SECRET_FILE", secret},
                        {"PACELINE_SERVERS", servers},
                        {"PACELINE_RANK", "0"},
                        {"PACELINE_WORLD", "1"}});
  };
  ExpectError(train(dir_ / "other", endpoint, "60"), 11, "secret");
  ExpectError(train(dir_ / "secret", "127.0.0.1:1", "0.2"), 75, "server 0 (127.0.0.1:1)");
  ExpectError(RunPaceline({"server", "--run", run, "--index", "2", "--servers", "2"}), 2,
              "--index");
}

}  // namespace
}  // namespace paceline::testing
