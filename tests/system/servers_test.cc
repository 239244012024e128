// Trainers and parameter servers as real processes: modes, stops, other numbers of servers, export.
#include <signal.h>

#include <filesystem>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "support/processes.h"
#include "support/program.h"
#include "system/server_runs.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kDeadline = 240s;  // only against hanging

class ServersTest : public ::testing::Test {
 protected:
  TempDir dir_{TempDir::Place::kMemory};
};

struct ModeCase {
  const char* mode;
  std::vector<std::string> flags;
  std::uint64_t rounds;  // pushes of each trainer
};

class ModesTest : public ::testing::TestWithParam<ModeCase> {};

TEST_P(ModesTest, EndsWithEveryPushAndNobodyLeft) {
  const TempDir dir{TempDir::Place::kMemory};
  const std::string run = dir / "run";
  std::vector<std::string> flags{"--mode", GetParam().mode};
  flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
  const CommandResult result = RunPaceline(ServerTraining(run, flags));
  const nlohmann::json json = ExpectComplete(result, run, kTrainers * GetParam().rounds);
  EXPECT_EQ(json["steps"], kSteps);
  EXPECT_EQ(json["mode"], GetParam().mode);
  EXPECT_GT(json["auc"], 0.4);
  EXPECT_EQ(LastJson(result.out)["params_hash"], json["params_hash"]);
}

INSTANTIATE_TEST_SUITE_P(
    Servers, ModesTest,
    ::testing::Values(ModeCase{"sync", {}, kSteps}, ModeCase{"async", {}, kSteps},
                      ModeCase{"half-async", {"--merge", "4"}, kSteps / 4},
                      ModeCase{"geo", {"--geo-steps", "10", "--optimizer", "sgd"}, kSteps / 10},
                      ModeCase{"ssp", {"--staleness", "3"}, kSteps}));

TEST_F(ServersTest, TheNumberOfServersDoesNotChangeTheResult) {
  std::set<std::string> hashes;
  for (const char* servers : {"1", "2", "3"}) {
    hashes.insert(HashOf(RunPaceline(ServerTraining(dir_ / servers, {"--servers", servers}))));
  }
  // A process alone with as many shards: the same sums in the same order.
  hashes.insert(HashOf(RunPaceline({"train", "ctr-dnn-small", "--steps", std::to_string(kSteps),
                                    "--shards", std::to_string(kTrainers), "--batch", "32",
                                    "--eval-samples", "200", "--json", "--run", dir_ / "local"})));
  EXPECT_EQ(hashes.size(), 1U);
}

// The state of FTRL, two numbers a parameter, lives on servers like that of the others.
TEST_F(ServersTest, FtrlHasTheSameBitsOnServersAndWithout) {
  const std::vector<std::string> ftrl{"--optimizer", "ftrl", "--ftrl-l1", "0.01"};
  std::vector<std::string> servers = ftrl;
  servers.insert(servers.end(), {"--servers", "2", "--chaos", "kill=server:1@step20"});
  std::vector<std::string> local{"train",          "ctr-dnn-small",
                                 "--steps",        std::to_string(kSteps),
                                 "--shards",       std::to_string(kTrainers),
                                 "--batch",        "32",
                                 "--eval-samples", "200",
                                 "--json",         "--run",
                                 dir_ / "local"};
  local.insert(local.end(), ftrl.begin(), ftrl.end());
  const std::string expected = HashOf(RunPaceline(local));
  EXPECT_EQ(HashOf(RunPaceline(ServerTraining(dir_ / "servers", servers))), expected);
  EXPECT_NE(HashOf(RunPaceline(ServerTraining(dir_ / "adagrad", {}))), expected);
}

TEST_F(ServersTest, AStoppedRunGoesOnAsIfNothingHadHappened) {
  constexpr std::uint64_t kLong = 800;
  const std::vector<std::string> flags{"--steps", std::to_string(kLong)};
  const std::string expected = HashOf(RunPaceline(ServerTraining(dir_ / "whole", flags)));
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = dir_ / ("stopped" + std::to_string(signal));
    Subprocess child = StartPaceline(ServerTraining(run, flags));
    // Step 3 needs step 2 of both: nobody is still starting.
    const std::string events = run + "/events.jsonl";
    while (!std::filesystem::exists(events) ||
           ReadFile(events).find("\"step\": 3,") == std::string::npos) {
      std::this_thread::yield();
    }
    child.Signal(signal);
    const auto rest = child.ReadAll(kDeadline);
    ASSERT_THAT(rest, IsOk());
    const auto state = child.Wait(kDeadline);
    ASSERT_THAT(state, IsOk());
    EXPECT_EQ(state->code, 0) << rest->out;
    EXPECT_THAT(rest->out, HasSubstr("the trainers save and stop, then the servers"));
    EXPECT_THAT(ProcessesOf(run), IsEmpty());
    EXPECT_GE(ServerRecordOf(run, 0)["snapshots"], 1);
    const CommandResult resumed = RunPaceline({"train", "--resume", "--run", run, "--json"});
    const nlohmann::json json = ExpectComplete(resumed, run, kTrainers * kLong);
    EXPECT_EQ(json["params_hash"], expected);
    EXPECT_GT(json["resumed_from_step"], 0);
    EXPECT_LT(json["resumed_from_step"], kLong);
  }
}

TEST_F(ServersTest, ARunGoesOnWithAnotherNumberOfServers) {
  const std::string expected = HashOf(RunPaceline(ServerTraining(dir_ / "whole")));
  const std::string run = dir_ / "run";
  ExpectComplete(RunPaceline(ServerTraining(run, {"--steps", "20"})), run, kTrainers * 20);
  const auto go_on = [&](const char* steps, const char* servers) {
    return RunPaceline(
        {"train", "--resume", "--run", run, "--json", "--steps", steps, "--servers", servers});
  };
  ExpectComplete(go_on("40", "3"), run, kTrainers * 40, 3);
  EXPECT_TRUE(std::filesystem::exists(run + "/servers/before-1/server-1"));
  const CommandResult last = go_on("60", "1");
  ExpectComplete(last, run, kTrainers * kSteps, 1);
  EXPECT_EQ(HashOf(last), expected);
  EXPECT_TRUE(std::filesystem::exists(run + "/servers/before-2/server-2"));
}

TEST_F(ServersTest, ParametersAreExported) {
  const std::string run = dir_ / "run";
  ExpectComplete(RunPaceline(ServerTraining(run)), run, kTrainers * kSteps);
  const CommandResult done = RunPaceline({"export", run, "--out", dir_ / "out"});
  EXPECT_EQ(done.state.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("wrote " + (dir_ / "out/model.safetensors")));
  ExpectError(RunPaceline({"export", run, "--out", dir_ / "out"}), 2, "is there already");
  ExpectError(RunPaceline({"export", dir_ / "none", "--out", dir_ / "out"}), 2, "there is no run");
  const CommandResult local =
      RunPaceline({"train", "ctr-dnn-small", "--steps", "5", "--run", dir_ / "local"});
  ASSERT_EQ(local.state.code, 0) << local.err;
  const CommandResult text =
      RunPaceline({"export", dir_ / "local", "--out", dir_ / "text", "--format", "text"});
  EXPECT_EQ(text.state.code, 0) << text.err;
  EXPECT_TRUE(std::filesystem::exists(dir_ / "text/dense.safetensors"));
}

TEST_F(ServersTest, WordsOfATextAreJudgedByFilesAndExported) {
  std::string sentences;
  for (int i = 0; i < 200; ++i) sentences += "the man and the woman saw the king and the queen\n";
  std::filesystem::create_directory(dir_ / "text");
  WriteFile(dir_ / "text/news", sentences);
  WriteFile(dir_ / "analogies", ": family\nman woman king queen\n");
  WriteFile(dir_ / "similarities", "man\twoman\t8\nking\tqueen\t9\nman\tqueen\t2\n");
  const std::string run = dir_ / "run";
  const std::vector<std::string> train = {"train",          "word2vec-small",
                                          "--data",         dir_ / "text",
                                          "--analogies",    dir_ / "analogies",
                                          "--similarities", dir_ / "similarities",
                                          "--steps",        "20",
                                          "--json",         "--run"};
  const auto with_run = [&](const std::string& folder) {
    auto arguments = train;
    arguments.push_back(folder);
    return RunPaceline(arguments);
  };
  const CommandResult trained = with_run(run);
  ASSERT_EQ(trained.state.code, 0) << trained.err;
  const auto result = nlohmann::json::parse(ReadFile(run + "/result.json"));
  EXPECT_TRUE(result.at("accuracy").is_number()) << result;
  EXPECT_TRUE(result.at("similarity").is_number()) << result;
  EXPECT_THAT(ReadFile(run + "/vocabulary.txt"), HasSubstr("queen 200\n"));
  const CommandResult text =
      RunPaceline({"export", run, "--out", dir_ / "out", "--format", "text"});
  ASSERT_EQ(text.state.code, 0) << text.err;
  bool found = false;
  for (const auto& file : std::filesystem::directory_iterator(dir_ / "out")) {
    found = found || (file.path().extension() == ".txt" &&
                      ReadFile(file.path()).find("\nqueen ") != std::string::npos);
  }
  EXPECT_TRUE(found);
  WriteFile(dir_ / "analogies", "man woman king\n");
  ExpectError(with_run(dir_ / "other"), 12, "analogies: line 1");
}

}  // namespace
}  // namespace paceline::testing
