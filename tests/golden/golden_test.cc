// The texts that users and scripts see. A difference is either a mistake or a decision: then update
// the files (see CMakeLists.txt) and let the reviewer read the diff.
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

struct Golden {
  const char* file;
  std::vector<std::string> arguments;
};

class GoldenTest : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenTest, OutputIsUnchanged) {
  const std::string path = std::string(PACELINE_GOLDEN_DIR "/") + GetParam().file;
  const CommandResult result = RunPaceline(GetParam().arguments);
  ASSERT_EQ(result.state.code, 0) << result.err;
  if (std::getenv("PACELINE_UPDATE_GOLDEN") != nullptr) WriteFile(path, result.out);
  EXPECT_EQ(result.out, ReadFile(path));
}

INSTANTIATE_TEST_SUITE_P(
    Cli, GoldenTest,
    ::testing::Values(Golden{"help.txt", {"--help"}}, Golden{"train_help.txt", {"train", "--help"}},
                      Golden{"launch_help.txt", {"launch", "--help"}},
                      Golden{"status_help.txt", {"status", "--help"}},
                      Golden{"top_help.txt", {"top", "--help"}},
                      Golden{"audit_help.txt", {"audit", "--help"}},
                      Golden{"export_help.txt", {"export", "--help"}},
                      Golden{"server_help.txt", {"server", "--help"}},
                      Golden{"bench_help.txt", {"bench", "--help"}},
                      Golden{"single_node_help.txt", {"bench", "single-node", "--help"}},
                      Golden{"scaling_help.txt", {"bench", "scaling", "--help"}},
                      Golden{"models.txt", {"models"}},
                      Golden{"models_vgg16.txt", {"models", "vgg16"}},
                      Golden{"models.json", {"models", "--json"}}),
    [](const auto& golden) {
      std::string name = golden.param.file;
      for (char& c : name) {
        if (c == '.') c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace paceline::testing
