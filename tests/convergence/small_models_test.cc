// Each model learns in its small form, on synthetic data: to a bound on held-out samples far above
// chance, with one worker and with two to the same parameters.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

struct Learner {
  const char* model;
  int steps;
  const char* figure;
  double bound;

  friend void PrintTo(const Learner& learner, std::ostream* out) { *out << learner.model; }
};

class SmallModel : public ::testing::TestWithParam<Learner> {};

nlohmann::json Train(const Learner& learner, const char* workers) {
  const TempDir dir;
  const CommandResult result =
      RunPaceline({"train", learner.model, "--run", dir / "run", "--steps",
                   std::to_string(learner.steps), "--workers", workers, "--shards", "2", "--batch",
                   "32", "--eval-samples", "500", "--reproducible", "--json"});
  EXPECT_EQ(result.state.code, 0) << result.err;
  return LastJson(result.out);
}

double Figure(const nlohmann::json& result, const std::string& name) {
  return (name == "accuracy" ? result : result["metrics"])[name].get<double>();
}

TEST_P(SmallModel, LearnsWithOneAndTwoWorkersToTheSameParameters) {
  const Learner& learner = GetParam();
  const nlohmann::json alone = Train(learner, "1"), together = Train(learner, "2");
  EXPECT_GE(Figure(alone, learner.figure), learner.bound) << alone;
  EXPECT_EQ(Figure(alone, learner.figure), Figure(together, learner.figure));
  EXPECT_EQ(alone["params_hash"], together["params_hash"]);
}

// Chance is 0.1 of classes; the most frequent word is 0.17 of the hidden ones; an image of the mean
// colour has about 12 dB.
INSTANTIATE_TEST_SUITE_P(Models, SmallModel,
                         ::testing::Values(Learner{"vgg16-small", 200, "accuracy", 0.9},
                                           Learner{"resnet50-small", 100, "accuracy", 0.9},
                                           Learner{"se-resnet50-small", 100, "accuracy", 0.9},
                                           Learner{"mobilenet-v2-small", 100, "accuracy", 0.9},
                                           Learner{"vgg16-imagenet-small", 200, "accuracy", 0.9},
                                           Learner{"image-compression-small", 250, "psnr", 20},
                                           Learner{"transformer-small", 300, "bleu", 0.5},
                                           Learner{"bert-small", 300, "accuracy", 0.33}),
                         [](const auto& learner) {
                           std::string name = learner.param.model;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace paceline::testing
