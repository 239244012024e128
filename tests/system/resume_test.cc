// Real processes that are interrupted, killed and started twice.
#include <signal.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr auto kDeadline = 240s;

void WaitForLine(Subprocess& child, const char* text) {
  for (;;) {
    const auto line = child.ReadLine(kDeadline);
    ASSERT_THAT(line, IsOk()) << "while waiting for: " << text;
    if (line->find(text) != std::string::npos) return;
  }
}

void WaitForFirstStep(Subprocess& child) { WaitForLine(child, "samples/s"); }

std::string HashOf(const std::vector<std::string>& arguments, Environment environment = {}) {
  const CommandResult result = RunPaceline(arguments, std::move(environment));
  EXPECT_EQ(result.state.code, 0) << result.err;
  return LastJson(result.out)["params_hash"];
}

class SignalAndThreads : public ::testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(SignalAndThreads, InterruptedAndResumedEqualsUndisturbed) {
  const auto [signal, threads] = GetParam();
  const TempDir dir;
  const std::vector<std::string> settings{"--steps", "30", "--threads",       threads,
                                          "--batch", "64", "--train-samples", "500"};
  const std::string expected = HashOf(SmallTraining(dir / "whole", settings));

  Subprocess child = StartPaceline(SmallTraining(dir / "run", settings));
  WaitForFirstStep(child);
  child.Signal(signal);
  const auto rest = child.ReadAll(kDeadline);
  ASSERT_THAT(rest, IsOk());
  const auto state = child.Wait(kDeadline);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 0) << rest->out;
  const nlohmann::json stopped = LastJson(rest->out);
  EXPECT_TRUE(stopped["interrupted"]);
  EXPECT_LT(stopped["steps"], 30);

  const CommandResult resumed = RunPaceline({"train", "--resume", "--run", dir / "run", "--json"});
  ASSERT_EQ(resumed.state.code, 0) << resumed.err;
  const nlohmann::json json = LastJson(resumed.out);
  EXPECT_EQ(json["resumed_from_step"], stopped["steps"]);
  EXPECT_EQ(json["params_hash"], expected);
}

INSTANTIATE_TEST_SUITE_P(Stop, SignalAndThreads,
                         ::testing::Values(std::pair{SIGINT, "1"}, std::pair{SIGTERM, "1"},
                                           std::pair{SIGINT, "2"}, std::pair{SIGTERM, "2"}));

TEST(Stop, ASecondInterruptEndsAtOnce) {
  const TempDir dir;
  // Steps of several seconds: the second signal comes long before the first step after it ends.
  Subprocess child = StartPaceline(SmallTraining(
      dir / "run", {"--batch", "8192", "--train-samples", "50000", "--steps", "100"}));
  WaitForFirstStep(child);
  child.Signal(SIGINT);
  WaitForLine(child, "Ctrl-C again");
  child.Signal(SIGINT);
  ASSERT_THAT(child.ReadAll(kDeadline), IsOk());
  const auto state = child.Wait(kDeadline);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 130);
}

// Every single operation is covered by the crash tests of src/disk; here a few with the real
// program, among them the first, the rename and what follows it.
TEST(Kill, DuringASaveLosesNothingThatWasSaved) {
  const TempDir dir;
  const std::vector<std::string> settings{"--steps", "6", "--checkpoint-every", "2"};
  const std::string expected = HashOf(SmallTraining(dir / "whole", settings));
  for (const char* fault : {"kill-before=1", "kill-torn=9", "kill-after=17", "kill-before=33"}) {
    const std::string run = dir / fault;
    const CommandResult killed = RunPaceline(SmallTraining(run, settings),
                                             {{"PACELINE_FAULTS", std::string("fs:") + fault}});
    EXPECT_EQ(killed.state.signal, SIGKILL) << fault << ": " << killed.state.Describe();
    EXPECT_EQ(HashOf({"train", "--resume", "--run", run, "--json"}), expected) << fault;
    for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoints")) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
    }
  }
}

TEST(DoubleStart, TheSecondNamesTheFirst) {
  const TempDir dir;
  Subprocess first = StartPaceline(SmallTraining(
      dir / "run", {"--batch", "1024", "--train-samples", "50000", "--steps", "100000"}));
  WaitForFirstStep(first);
  ExpectError(RunPaceline({"train", "--resume", "--run", dir / "run"}), 18,
              std::to_string(first.pid()));
  // A run that died leaves its directory usable.
  first.Signal(SIGKILL);
  ASSERT_THAT(first.Wait(kDeadline), IsOk());
  const CommandResult after =
      RunPaceline({"train", "--resume", "--run", dir / "run", "--steps", "1", "--json"});
  EXPECT_EQ(after.state.code, 0) << after.err;
}

}  // namespace
}  // namespace paceline::testing
