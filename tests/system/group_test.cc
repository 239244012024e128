// Several workers as real processes: the same bits whoever computes them, and what happens when
// one of them dies, does not fit, or is bothered from outside.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "member/rendezvous.h"
#include "support/processes.h"
#include "support/program.h"
#include "support/strangers.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kDeadline = 240s;

std::vector<std::string> GroupTraining(const std::string& run, const std::string& workers,
                                       std::vector<std::string> more = {}) {
  std::vector<std::string> settings{"--workers", workers, "--threads", "1"};
  settings.insert(settings.end(), more.begin(), more.end());
  return SmallTraining(run, settings);
}

std::string HashOf(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  return testing::HashOf(RunPaceline(arguments, environment));
}

std::string EnvironmentOf(pid_t pid, const std::string& variable) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(variable + "=")) return entry.substr(variable.size() + 1);
  }
  return "";
}

void WaitForLine(Subprocess& child, const char* text) {
  for (;;) {
    const auto line = child.ReadLine(kDeadline);
    ASSERT_THAT(line, IsOk()) << "while waiting for: " << text;
    if (line->find(text) != std::string::npos) return;
  }
}

TEST(Group, TheSameBitsForEveryNumberOfWorkersWithAndWithoutSharedMemory) {
  const TempDir dir;
  const std::vector<std::string> settings{"--steps", "20", "--batch", "4", "--shards", "12"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> all = settings;
    if (!more.empty()) all.insert(all.end(), {"--shared-memory", more, "--bucket-kb", "100"});
    return all;
  };
  const std::string expected = HashOf(GroupTraining(dir / "one", "1", settings));
  for (const std::string workers : {"2", "3", "4"}) {
    EXPECT_EQ(HashOf(GroupTraining(dir / ("shared" + workers), workers, settings)), expected);
    EXPECT_EQ(HashOf(GroupTraining(dir / ("tcp" + workers), workers, with("off"))), expected);
  }
}

TEST(Group, AnUnevenLastStepIsNoException) {
  const TempDir dir;
  const std::vector<std::string> settings{"--epochs", "1",  "--train-samples", "150",
                                          "--batch",  "16", "--shards",        "4"};
  EXPECT_EQ(HashOf(GroupTraining(dir / "one", "1", settings)),
            HashOf(GroupTraining(dir / "four", "4", settings)));
}

// Norms of whole tensors, an average and a scale that is part of the state.
TEST(Group, ARecipeHasTheSameBitsForEveryNumberOfWorkers) {
  const TempDir dir;
  const std::vector<std::string> recipe{"--steps",         "8",         "--batch",        "4",
                                        "--optimizer",     "lamb",      "--weight-decay", "0.01",
                                        "--decay-exclude", "norm-bias", "--ema",          "0.9",
                                        "--loss-scale",    "dynamic",   "--mixup",        "0.2"};
  const auto run = [&](const std::string& workers, const std::vector<std::string>& more) {
    std::vector<std::string> settings = recipe;
    settings.insert(settings.end(), more.begin(), more.end());
    const CommandResult result =
        RunPaceline(GroupTraining(dir / (workers + more[0]), workers, settings));
    EXPECT_EQ(result.state.code, 0) << result.err;
    return LastJson(result.out);
  };
  const auto one = run("1", {"--shards", "4"});
  for (const auto& other : {run("1", {"--accumulate", "4"}), run("2", {"--accumulate", "2"})}) {
    EXPECT_EQ(other["params_hash"], one["params_hash"]);
    EXPECT_EQ(other["ema_hash"], one["ema_hash"]);
    EXPECT_EQ(other["eval_loss"], one["eval_loss"]);
  }
}

TEST(Group, AllStopEarlyAfterTheSameStep) {
  const TempDir dir;
  const std::vector<std::string> settings{
      "--steps",      "60", "--batch",    "4", "--shards",   "2", "--eval-samples", "10",
      "--eval-every", "1",  "--patience", "2", "--keep-best"};
  const CommandResult one = RunPaceline(GroupTraining(dir / "one", "1", settings));
  const CommandResult two = RunPaceline(GroupTraining(dir / "two", "2", settings));
  ASSERT_EQ(two.state.code, 0) << two.err;
  EXPECT_THAT(two.err, HasSubstr("stopping early: 2 evaluation(s) without a better accuracy"));
  const auto summary = LastJson(two.out);
  EXPECT_EQ(summary["stopped_early"], true);
  EXPECT_EQ(summary["interrupted"], false);
  EXPECT_EQ(summary["steps"], LastJson(one.out)["steps"]);
  EXPECT_EQ(summary["params_hash"], LastJson(one.out)["params_hash"]);
  EXPECT_TRUE(std::filesystem::exists(dir / "two/checkpoints/BEST"));
  const CommandResult audit = RunPaceline({"audit", dir / "two"});
  EXPECT_EQ(audit.state.code, 0) << audit.out << audit.err;
  EXPECT_THAT(audit.out, HasSubstr("stopped early"));
}

TEST(Group, EveryEngineTrains) {
  const TempDir dir;
  for (const std::string engine : {"gloo", "mpi"}) {
    const CommandResult result = RunPaceline(
        GroupTraining(dir / engine, "2", {"--steps", "3", "--batch", "4", "--engine", engine}));
    ASSERT_EQ(result.state.code, 0) << result.err;
    EXPECT_THAT(LastJson(result.out)["group"].get<std::string>(), HasSubstr("engine " + engine));
  }
}

TEST(Group, MpirunIsRecognisedWithoutFlags) {
  const TempDir dir;
  const std::vector<std::string> settings{"--steps", "3", "--batch", "4", "--shards", "4"};
  std::vector<std::string> argv{"mpirun", "--oversubscribe", "-np", "4"};
  if (::geteuid() == 0) argv.emplace_back("--allow-run-as-root");
  argv.push_back(Program("paceline-worker"));
  const auto training = SmallTraining(dir / "mpi", settings);
  argv.insert(argv.end(), training.begin(), training.end());
  const auto result = RunCommand({.argv = argv}, kDeadline);
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->state.code, 0) << result->err;
  EXPECT_THAT(result->err, HasSubstr("launch environment: open-mpi, rank 0 of 4"));
  EXPECT_EQ(LastJson(result->out)["params_hash"],
            HashOf(GroupTraining(dir / "one", "1", settings)));
}

TEST(Group, AnInterruptedGroupGoesOnWithAnotherNumberOfWorkers) {
  const TempDir dir;
  const std::vector<std::string> settings{"--steps", "40", "--batch", "32", "--shards", "6"};
  const std::string expected = HashOf(GroupTraining(dir / "whole", "1", settings));
  Subprocess child = StartPaceline(GroupTraining(dir / "run", "3", settings));
  WaitForLine(child, "samples/s");
  child.Signal(SIGTERM);
  const auto rest = child.ReadAll(kDeadline);
  ASSERT_THAT(rest, IsOk());
  ASSERT_THAT(child.Wait(kDeadline), IsOk());
  EXPECT_TRUE(ProcessesOf(dir / "run").empty());
  const CommandResult resumed =
      RunPaceline({"train", "--resume", "--run", dir / "run", "--workers", "2", "--json"});
  ASSERT_EQ(resumed.state.code, 0) << resumed.err;
  EXPECT_EQ(LastJson(resumed.out)["params_hash"], expected);
}

TEST(Group, AKilledWorkerIsNamedByAllAndNothingIsLeft) {
  const TempDir dir;
  const std::string run = dir / "run";
  Subprocess child = StartPaceline(
      GroupTraining(run, "3", {"--steps", "1000000", "--batch", "8", "--train-samples", "500"}));
  WaitForLine(child, "samples/s");
  for (const pid_t pid : ProcessesOf(run)) {
    if (EnvironmentOf(pid, "PACELINE_RANK") == "1") {
      ASSERT_EQ(::kill(pid, SIGKILL), 0);
    }
  }
  const auto rest = child.ReadAll(kDeadline);
  ASSERT_THAT(rest, IsOk());
  const auto state = child.Wait(kDeadline);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 128 + SIGKILL);
  EXPECT_THAT(rest->out, HasSubstr("[w0] paceline train: error: rank 0: lost rank 1"));
  EXPECT_THAT(rest->out, HasSubstr("[w2] paceline train: error: rank 2: lost rank 1"));
  EXPECT_THAT(rest->out, AllOf(HasSubstr("Root cause (first observed failure)"),
                               HasSubstr("rank      : 1"), HasSubstr("SIGKILL")));
  EXPECT_TRUE(ProcessesOf(run).empty());
}

TEST(Group, ANanOfOneWorkerIsSkippedByAll) {
  const TempDir dir;
  const CommandResult result = RunPaceline(GroupTraining(dir / "run", "3", {"--steps", "6"}),
                                           {{"PACELINE_FAULTS", "rank=2,nan:step=3"}});
  ASSERT_EQ(result.state.code, 0) << result.err;  // replicas are compared at the end
  EXPECT_EQ(LastJson(result.out)["skipped_steps"], 1);
}

// A job whose meeting point is in this process.
class OpenGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = member::RendezvousServer::Start(loop_, {.secret = secret_, .world = 2});
    ASSERT_THAT(server, IsOk());
    server_ = std::move(*server);
  }

  Subprocess Start(const std::string& rank, const std::vector<std::string>& settings,
                   const net::Secret& secret) {
    std::vector<std::string> argv{Program("paceline-worker")};
    const auto training = SmallTraining(dir_ / "run", settings);
    argv.insert(argv.end(), training.begin(), training.end());
    auto child =
        Subprocess::Start({.argv = argv,
                           .environment = {{"PACELINE_RANK", rank},
                                           {"PACELINE_WORLD", "2"},
                                           {"PACELINE_COORDINATOR", server_->endpoint().ToString()},
                                           {"PACELINE_COORDINATOR_RUNS", "yes"},
                                           {"PACELINE_SECRET", secret.ToHex()}},
                           .pipe_stderr = true});
    EXPECT_THAT(child, IsOk());
    return std::move(*child);
  }

  static CommandResult End(Subprocess child) {
    CommandResult result;
    auto output = child.ReadAll(kDeadline);
    EXPECT_THAT(output, IsOk());
    if (output.ok()) {
      result.out = output->out;
      result.err = output->err;
    }
    auto state = child.Wait(kDeadline);
    EXPECT_THAT(state, IsOk());
    if (state.ok()) result.state = *state;
    return result;
  }

  const TempDir dir_;
  net::Loop loop_;
  net::Secret secret_ = *net::Secret::Generate();
  std::unique_ptr<member::RendezvousServer> server_;
};

TEST_F(OpenGroup, WorkersThatDifferAreToldInWhat) {
  Subprocess a = Start("0", {"--steps", "3", "--batch", "4"}, secret_);
  Subprocess b = Start("1", {"--steps", "3", "--batch", "8"}, secret_);
  for (const CommandResult& result : {End(std::move(a)), End(std::move(b))}) {
    ExpectError(result, 10, "batch:");
  }
}

TEST_F(OpenGroup, AWrongSecretIsRefusedAndTheJobGoesOn) {
  const std::vector<std::string> settings{"--steps", "3"};
  Subprocess a = Start("0", settings, secret_);
  const CommandResult intruder = End(Start("1", settings, *net::Secret::Generate()));
  ExpectError(intruder, 11, "wrong secret");
  EXPECT_EQ(intruder.err.find(secret_.ToHex()), std::string::npos);
  Subprocess b = Start("1", settings, secret_);
  EXPECT_EQ(End(std::move(a)).state.code, 0);
  EXPECT_EQ(End(std::move(b)).state.code, 0);
}

// Strangers on every port of a running job: garbage, a huge length, and many that never finish.
TEST_F(OpenGroup, StrangersOnThePortsChangeNothing) {
  const std::vector<std::string> settings{"--steps", "60", "--batch", "16", "--shards", "2"};
  const std::string expected =
      HashOf(SmallTraining(dir_ / "alone", {"--steps", "60", "--batch", "16", "--shards", "2"}));
  Subprocess a = Start("0", settings, secret_);
  Subprocess b = Start("1", settings, secret_);
  // Progress on stderr means that the group is up.
  while (!std::filesystem::exists(dir_ / "run/events.jsonl")) std::this_thread::yield();
  Strangers strangers;
  for (const pid_t pid : {a.pid(), b.pid()}) strangers.Bother(pid, 100);
  EXPECT_GE(strangers.count(), 200U);
  const CommandResult first = End(std::move(a));
  EXPECT_EQ(first.state.code, 0) << first.err;
  EXPECT_EQ(End(std::move(b)).state.code, 0);
  EXPECT_EQ(LastJson(first.out)["params_hash"], expected);
  EXPECT_THAT(first.err, HasSubstr("turned a caller away"));
}

}  // namespace
}  // namespace paceline::testing
