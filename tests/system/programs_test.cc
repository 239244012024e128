// The programs as a user meets them: help, models, version, doctor, a first training.
#include <filesystem>

#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Paceline, LinksNoTorch) {
  const auto libraries = RunCommand({.argv = {"ldd", Program("paceline")}}, 30s);
  ASSERT_THAT(libraries, IsOk());
  EXPECT_THAT(libraries->out, HasSubstr("libc.so"));
  EXPECT_THAT(libraries->out, Not(HasSubstr("torch")));
}

TEST(Paceline, HelpsAtEveryLevel) {
  const std::vector<std::vector<std::string>> commands{{"--help"},
                                                       {"train", "--help"},
                                                       {"launch", "--help"},
                                                       {"bench", "--help"},
                                                       {"bench", "single-node", "--help"},
                                                       {"bench", "scaling", "--help"},
                                                       {"status", "--help"},
                                                       {"top", "--help"},
                                                       {"audit", "--help"},
                                                       {"models", "--help"},
                                                       {"doctor", "--help"},
                                                       {"version", "--help"}};
  for (const auto& command : commands) {
    const CommandResult result = RunPaceline(command);
    EXPECT_EQ(result.state.code, 0) << command.front();
    EXPECT_THAT(result.out, HasSubstr("Usage: "));
    EXPECT_EQ(result.err, "");
  }
}

TEST(Models, JsonListsNameParamsAndTensors) {
  const nlohmann::json json = LastJson(RunPaceline({"models", "--json"}).out);
  bool found = false;
  for (const auto& model : json["models"]) {
    if (model["name"] != "vgg16") continue;
    found = true;
    EXPECT_EQ(model["params"], 15'254'602);
    EXPECT_EQ(model["tensors"], 60);
  }
  EXPECT_TRUE(found);
}

TEST(Doctor, SaysWhetherTheMachineIsFit) {
  const CommandResult result = RunPaceline({"doctor", "--json"});
  const nlohmann::json json = LastJson(result.out);
  EXPECT_EQ(json["ok"].get<bool>(), result.state.code == 0);
  EXPECT_FALSE(json["findings"].empty());
}

TEST(Train, JsonHasEveryPromisedField) {
  const TempDir dir;
  const CommandResult result = RunPaceline(SmallTraining(dir / "run", {"--steps", "2"}));
  ASSERT_EQ(result.state.code, 0) << result.err;
  const nlohmann::json json = LastJson(result.out);
  for (const char* field :
       {"model", "strategy", "workers", "batch", "steps", "samples", "seconds",
        "samples_per_second", "final_loss", "accuracy", "params", "params_hash", "phases"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["samples"], 16);
  EXPECT_TRUE(std::filesystem::exists(dir / "run/config.toml"));
  EXPECT_TRUE(std::filesystem::exists(dir / "run/events.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoints/gen-0000000000000001/MANIFEST.json"));
  EXPECT_THAT(result.err, HasSubstr("samples/s"));
}

TEST(Train, ReadsTheCifar10Format) {
  const TempDir dir;
  for (int file = 0; file < 6; ++file) {
    std::string content;
    for (int record = 0; record < 10; ++record) {
      content += static_cast<char>(record);
      content += std::string(3072, static_cast<char>(record * 20 + file));
    }
    WriteFile(dir.path() / (file == 5 ? "test_batch.bin"
                                      : "data_batch_" + std::to_string(file + 1) + ".bin"),
              content);
  }
  const CommandResult result =
      RunPaceline(SmallTraining(dir / "run", {"--data", dir.path().string(), "--epochs", "1"}));
  ASSERT_EQ(result.state.code, 0) << result.err;
  const nlohmann::json json = LastJson(result.out);
  EXPECT_EQ(json["samples"], 50);
  EXPECT_EQ(json["eval_samples"], 10);
}

TEST(Train, GlogVariablesOpenTheLog) {
  const TempDir dir;
  const CommandResult result = RunPaceline(SmallTraining(dir / "run", {"--steps", "1"}),
                                           {{"GLOG_logtostderr", "1"}, {"GLOG_v", "1"}});
  ASSERT_EQ(result.state.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("training_run.cc:"));
}

TEST(Train, QuietPrintsOnlyTheSummary) {
  const TempDir dir;
  const CommandResult result = RunPaceline(SmallTraining(dir / "run", {"--steps", "1", "--quiet"}));
  ASSERT_EQ(result.state.code, 0);
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace paceline::testing
