// Models learn: a bound on held-out accuracy after a fixed number of samples, far above what chance
// (10 %) or a linear model (about 30 %) reaches. The synthetic set is learnt to nearly 100 %; the
// bound leaves room for another number of threads.
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

struct Recipe {
  const char* name;
  std::vector<std::string> flags;

  friend void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }
};

class Convergence : public ::testing::TestWithParam<Recipe> {};

TEST_P(Convergence, Vgg16SmallReachesNinetyPercentOnHeldOutImages) {
  const TempDir dir;
  std::vector<std::string> arguments{"train",     "vgg16-small", "--run",   dir / "run",
                                     "--steps",   "300",         "--batch", "64",
                                     "--threads", "2",           "--json"};
  arguments.insert(arguments.end(), GetParam().flags.begin(), GetParam().flags.end());
  const CommandResult result = RunPaceline(arguments);
  ASSERT_EQ(result.state.code, 0) << result.err;
  const nlohmann::json json = LastJson(result.out);
  EXPECT_GE(json["accuracy"].get<double>(), 0.90) << json;
  EXPECT_GE(json["auc"].get<double>(), 0.98) << json;
  EXPECT_EQ(json["samples"], 300 * 64);
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, Convergence,
    ::testing::Values(Recipe{"adam", {}},
                      Recipe{"momentum",
                             {"--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.05",
                              "--lr-schedule", "cosine", "--warmup-steps", "20", "--weight-decay",
                              "5e-4", "--clip-norm", "5"}},
                      Recipe{"adagrad", {"--optimizer", "adagrad", "--lr", "0.02"}},
                      Recipe{"ftrl",
                             {"--optimizer", "ftrl", "--ftrl-l1", "1e-4", "--lr", "0.1",
                              "--lr-schedule", "cosine", "--warmup-steps", "20"}},
                      // Four virtual shards: gradients and statistics added over the fixed tree.
                      Recipe{"shards", {"--shards", "4", "--batch", "16"}}),
    [](const auto& recipe) { return std::string(recipe.param.name); });

}  // namespace
}  // namespace paceline::testing
