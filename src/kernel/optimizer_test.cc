#include "kernel/optimizer.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::kernel {
namespace {

// Three steps with gradient = params (so minimising |p|^2 / 2), next to the same in double.
template <typename Step>
std::vector<float> ThreeSteps(Step step) {
  std::vector<float> params{1.0F, -2.0F, 0.5F};
  for (std::uint64_t t = 1; t <= 3; ++t) {
    const std::vector<float> gradient = params;
    step(t, params, gradient);
  }
  return params;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6) << i;
}

// Reference values of torch.optim 1.13.1: see optimizer_reference.py beside this file.
TEST(Sgd, MatchesTorch) {
  ExpectNear(ThreeSteps([](auto, auto& p, const auto& g) {
               SgdStep({.learning_rate = 0.1F, .weight_decay = 0.01F}, p, g, {});
             }),
             {0.72657269, -1.4531454, 0.36328635});
}

TEST(SgdMomentum, MatchesTorch) {
  std::vector<float> velocity(3);
  ExpectNear(ThreeSteps([&](auto, auto& p, const auto& g) {
               SgdStep({.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F}, p, g,
                       velocity);
             }),
             {0.48132452, -0.96264905, 0.24066226});
}

TEST(Adam, MatchesTorch) {
  std::vector<float> mean(3), variance(3);
  ExpectNear(ThreeSteps([&](auto t, auto& p, const auto& g) {
               AdamStep({.learning_rate = 0.1F, .weight_decay = 0.01F}, t, p, g, mean, variance);
             }),
             {0.70158619, -1.7006234, 0.20487127});
}

TEST(Adagrad, MatchesTorch) {
  std::vector<float> sums(3);
  ExpectNear(ThreeSteps([&](auto, auto& p, const auto& g) {
               AdagradStep({.learning_rate = 0.1F, .weight_decay = 0.01F}, p, g, sums);
             }),
             {0.78045619, -1.7758214, 0.29089919});
}

}  // namespace
}  // namespace paceline::kernel
