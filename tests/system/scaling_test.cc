// `paceline bench scaling` with the real programs: workers alone, our group, and PyTorch's.
#include <filesystem>

#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;

class ScalingBench : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TempDir dir;
    const std::string out = dir / "out";
    const CommandResult result =
        RunPaceline({"bench", "scaling", "--model", "vgg16-small", "--batch", "8", "--rounds", "1",
                     "--steps", "2", "--json", "--out", out});
    ASSERT_EQ(result.state.code, 0) << result.err;
    results_ = LastJson(result.out);
    for (const char* file : {"results.json", "report.html"}) {
      ASSERT_TRUE(std::filesystem::exists(out + "/" + file)) << file;
    }
    report_ = ReadFile(out + "/report.html");
  }

  // One round of both teams of a system.
  static void ExpectMeasured(std::size_t system) {
    for (const char* team : {"alone", "together"}) {
      const auto& runs = results_["systems"][system][team];
      ASSERT_EQ(runs["rank_seconds"].size(), 1U) << team;
      EXPECT_EQ(runs["rank_seconds"][0].size(), 2U) << team;
      EXPECT_EQ(runs["samples"], 2 * 2 * 8) << team;
      EXPECT_GT(runs["last_loss"], 0) << team;
    }
    EXPECT_GT(results_["summary"][system]["efficiency"]["median"], 0);
    EXPECT_GT(results_["summary"][system]["in_step"]["median"], 0);
  }

  static inline nlohmann::json results_;
  static inline std::string report_;
};

TEST_F(ScalingBench, MeasuresOurWorkersAloneAndTogether) {
  ASSERT_EQ(results_["name"], "scaling");
  EXPECT_EQ(results_["systems"][0]["name"], "Paceline");
  EXPECT_EQ(results_["partial"], false);
  ExpectMeasured(0);
  EXPECT_THAT(report_, HasSubstr("Paceline allreduce"));
}

TEST_F(ScalingBench, MeasuresPyTorchBesideIt) {
  ASSERT_EQ(results_["systems"].size(), 2U);
  const std::string unavailable = results_["systems"][1]["unavailable"];
  if (!unavailable.empty()) GTEST_SKIP() << unavailable;
  EXPECT_EQ(results_["systems"][1]["params"], results_["systems"][0]["params"]);
  ExpectMeasured(1);
  EXPECT_GT(results_["summary"][1]["together"]["speedup"]["median"], 0);
}

}  // namespace
}  // namespace paceline::testing
