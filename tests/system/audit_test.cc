// audit, status and top as a user meets them, on records written by hand: no training.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Start() {
  return R"({"type": "start", "time": 0, "run": "r", "model": "vgg16-small", "step": 0, )"
         R"("total_steps": 5, "threads": 1, "workers": 1, "seed": 1, "dataset_size": 40, )"
         R"("batch": 8, "shards": 1, "total_samples": 40})"
         "\n";
}

std::string Step(int step, const std::string& state) {
  return fmt::format(
      R"({{"type": "step", "time": 1, "step": {}, "samples": {}, "loss": 1, "accuracy": 0.5, )"
      R"("lr": 0.1, "applied": true, "seconds": 0.1, "state": "{}", "tensors": {{"w": "{}"}}}})"
      "\n",
      step, 8 * step, state, state);
}

std::string Steps(int last, const std::string& state) {
  std::string text = Start();
  for (int step = 1; step <= last; ++step) text += Step(step, state);
  return text;
}

std::string End(int step) {
  return fmt::format(
      R"({{"type": "end", "time": 2, "step": {}, "params_hash": "0", "interrupted": false}})"
      "\n",
      step);
}

std::string MakeRun(const TempDir& dir, const std::string& name, const std::string& events) {
  std::filesystem::create_directories(dir / name);
  WriteFile(dir / name + "/events.jsonl", events);
  return dir / name;
}

TEST(AuditCommand, AcceptsAGoodRunAndRefusesABadOne) {
  const TempDir dir;
  const CommandResult good = RunPaceline({"audit", MakeRun(dir, "good", Steps(5, "s") + End(5))});
  EXPECT_EQ(good.state.code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("audit: exactly once: OK\n"));
  const std::string gap = Start() + Step(1, "s") + Step(3, "s");
  const CommandResult bad = RunPaceline({"audit", MakeRun(dir, "bad", gap), "--json"});
  EXPECT_EQ(bad.state.code, 12);
  const nlohmann::json json = LastJson(bad.out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["violations"][0]["kind"], "gap");
  EXPECT_EQ(json["violations"][0]["line"], 3);
}

TEST(AuditCommand, ComparesTwoRuns) {
  const TempDir dir;
  const std::string first = MakeRun(dir, "first", Steps(5, "s"));
  EXPECT_EQ(RunPaceline({"audit", first, MakeRun(dir, "same", Steps(5, "s"))}).state.code, 0);
  const std::string other = Start() + Step(1, "s") + Step(2, "t");
  const CommandResult result = RunPaceline({"audit", first, MakeRun(dir, "other", other)});
  EXPECT_EQ(result.state.code, 10);
  EXPECT_THAT(result.out, HasSubstr("audit: the runs differ from step 2 on\n"));
  const CommandResult shorter = RunPaceline({"audit", first, MakeRun(dir, "short", Steps(3, "s"))});
  EXPECT_EQ(shorter.state.code, 10);
  EXPECT_THAT(shorter.out, HasSubstr("is a prefix of"));
}

TEST(AuditCommand, NamesWhatIsMissing) {
  const TempDir dir;
  ExpectError(RunPaceline({"audit", dir / "none"}), 2, "there is no run directory");
  ExpectError(RunPaceline({"status", dir / "none"}), 2, "there is no run directory");
  ExpectError(RunPaceline({"top", dir / "none"}), 2, "there is no run directory");
  ExpectError(RunPaceline({"audit", dir.path().string()}), 2, "holds no records of a run");
  ExpectError(RunPaceline({"audit"}), 2, "RUN is required");
  ExpectError(RunPaceline({"top", dir / "none", "--format", "xml"}), 2, "csv,noheader, not 'xml'");
  ExpectError(RunPaceline({"audit", MakeRun(dir, "old",
                                            "{\"type\": \"start\", \"step\": 0, "
                                            "\"total_steps\": 5}\n")}),
              12, "an older version");
}

TEST(StatusCommand, ShowsAPlainRun) {
  const TempDir dir;
  const std::string run = MakeRun(dir, "run", Steps(4, "s"));
  const CommandResult text = RunPaceline({"status", run});
  EXPECT_EQ(text.state.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("state        RUNNING\n"));
  EXPECT_THAT(text.out, HasSubstr("step         4/5 (80.0 %), 32 samples, epoch 0.80\n"));
  EXPECT_THAT(text.out, Not(HasSubstr("\x1b")));
  EXPECT_EQ(LastJson(RunPaceline({"status", run, "--json"}).out)["step"], 4);
}

TEST(TopCommand, EndsWithTheRunAndWithASignal) {
  const TempDir dir;
  const std::string done = MakeRun(dir, "done", Steps(5, "s") + End(5));
  const CommandResult result = RunPaceline({"top", done});
  EXPECT_EQ(result.state.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("state        DONE\n"));

  const std::string running = MakeRun(dir, "running", Steps(4, "s"));
  Subprocess top = StartPaceline({"top", running, "--interval", "3600"});
  const auto line = top.ReadLine(60s);  // it has drawn, so it listens to signals
  ASSERT_THAT(line, IsOk());
  EXPECT_THAT(*line, HasSubstr(running));
  top.Signal(SIGTERM);
  const auto state = top.Wait(60s);
  ASSERT_THAT(state, IsOk());
  EXPECT_TRUE(state->Success()) << state->Describe();
}

TEST(TopCommand, PrintsTheTableForScripts) {
  const TempDir dir;
  const std::string run = MakeRun(dir, "run", Steps(5, "s"));
  WriteFile(run + "/status.json",
            R"({"unix": 1, "state": "running", "members": [{"member": "w0", "rank": 0}]})");
  EXPECT_EQ(RunPaceline({"top", run, "--once", "--format", "csv,noheader"}).out,
            "w0,0,,0,,0,,0,,,\n");
}

}  // namespace
}  // namespace paceline::testing
