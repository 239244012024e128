#include "kernel/optimizer.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernel/reduce.h"

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

TEST(Adam, MatchesTorchWithOtherBetas) {
  std::vector<float> mean(3), variance(3);
  const AdamOptions options{.learning_rate = 0.1F, .beta1 = 0.8F, .beta2 = 0.98F, .epsilon = 1e-3F};
  ExpectNear(ThreeSteps([&](auto t, auto& p, const auto& g) {
               AdamStep(options, t, p, g, mean, variance);
             }),
             {0.70286644, -1.7012409, 0.2076097});
}

TEST(AdamW, MatchesTorch) {
  std::vector<float> mean(3), variance(3);
  ExpectNear(ThreeSteps([&](auto t, auto& p, const auto& g) {
               AdamStep({.learning_rate = 0.1F, .decoupled_decay = 0.3F}, t, p, g, mean, variance);
             }),
             {0.6238867, -1.5353856, 0.17138305});
}

// Gradients that differ from step to step, so that a ratio of norms is not the same in all.
std::vector<float> SquaresPlus(std::uint64_t t, const std::vector<float>& params) {
  std::vector<float> gradient;
  for (const float p : params) gradient.push_back(p * p + static_cast<float>(t - 1));
  return gradient;
}

double Norm(std::span<const float> values) { return std::sqrt(SquaredNorm(values)); }

TEST(Lars, MatchesThePaper) {
  std::vector<float> velocity(3);
  ExpectNear(ThreeSteps([&](auto t, auto& p, const auto&) {
               const std::vector<float> g = SquaresPlus(t, p);
               const float scale =
                   LarsScale({.trust_coefficient = 0.1, .weight_decay = 0.01}, Norm(p), Norm(g));
               SgdStep(
                   {.learning_rate = 0.5F, .momentum = 0.9F, .weight_decay = 0.01F, .scale = scale},
                   p, g, velocity);
             }),
             {0.80668905, -2.6166765, 0.39943172});
}

TEST(Lamb, MatchesThePaper) {
  std::vector<float> mean(3), variance(3);
  const AdamOptions options{.beta1 = 0.8F, .beta2 = 0.95F, .epsilon = 1e-6F, .weight_decay = 0.01F};
  ExpectNear(ThreeSteps([&](auto t, auto& p, const auto&) {
               std::vector<float> g = SquaresPlus(t, p);
               LambDirection(options, t, p, g, mean, variance);
               const double ratio = LambRatio(Norm(p), Norm(g));
               SgdStep({.learning_rate = static_cast<float>(0.1 * ratio)}, p, g, {});
             }),
             {0.58417955, -2.4075167, 0.10940268});
}

TEST(RatiosOfNorms, AreOneWhereANormIsZero) {
  EXPECT_EQ(LarsScale({}, 0, 2), 1.0F);
  EXPECT_EQ(LarsScale({}, 2, 0), 1.0F);
  EXPECT_EQ(LambRatio(0, 2), 1.0);
  EXPECT_EQ(LambRatio(2, 0), 1.0);
}

TEST(Adagrad, MatchesTorch) {
  std::vector<float> sums(3);
  ExpectNear(ThreeSteps([&](auto, auto& p, const auto& g) {
               AdagradStep({.learning_rate = 0.1F, .weight_decay = 0.01F}, p, g, sums);
             }),
             {0.78045619, -1.7758214, 0.29089919});
}

// Algorithm 1 of the paper word by word: the weight is computed from z and n when it is needed.
struct PaperFtrl {
  double alpha, beta, l1, l2;
  double z = 0, n = 0;

  double Weight() const {
    if (std::abs(z) <= l1) return 0;
    return -(z - (z < 0 ? -l1 : l1)) / ((beta + std::sqrt(n)) / alpha + l2);
  }
  void Learn(double gradient) {
    const double sigma = (std::sqrt(n + gradient * gradient) - std::sqrt(n)) / alpha;
    const double weight = Weight();
    z += gradient - sigma * weight;
    n += gradient * gradient;
  }
};

TEST(Ftrl, MatchesThePaper) {
  const FtrlOptions options{.learning_rate = 0.1F, .beta = 0.5F, .l1 = 0.3F, .l2 = 0.02F};
  std::vector<PaperFtrl> paper(19, PaperFtrl{0.1F, 0.5F, 0.3F, 0.02F});
  std::vector<float> params(19), z(19), n(19), gradient(19);
  for (int step = 0; step < 50; ++step) {
    std::vector<double> expected;
    for (std::size_t i = 0; i < 19; ++i) {
      gradient[i] = std::sin(static_cast<float>(i * 7) + 1.3F * static_cast<float>(step)) / 4;
      paper[i].Learn(gradient[i]);
      expected.push_back(paper[i].Weight());
    }
    FtrlStep(options, params, gradient, z, n);
    ExpectNear(params, expected);
  }
}

TEST(Ftrl, SmallGradientsLeaveExactZeros) {
  std::vector<float> params(2), z(2), n(2);
  const std::vector<float> gradient{0.05F, -2.0F};
  FtrlStep({.l1 = 0.1F}, params, gradient, z, n);
  EXPECT_EQ(params[0], 0.0F);
  EXPECT_GT(params[1], 0.0F);
}

TEST(Ftrl, AnInitialValueStaysUntilItsFirstGradientAndIsNotLostThere) {
  std::vector<float> params{0.25F, -0.25F}, z(2), n(2);
  FtrlStep({.l1 = 0.1F, .l2 = 0.1F}, params, std::vector<float>{0, 0}, z, n);
  EXPECT_EQ(params, (std::vector<float>{0.25F, -0.25F}));
  FtrlStep({.l1 = 0.1F, .l2 = 0.1F}, params, std::vector<float>{1e-4F, 1e-4F}, z, n);
  EXPECT_NEAR(params[0], 0.25F, 1e-4);
  EXPECT_NEAR(params[1], -0.25F, 1e-4);
}

// Schedules, and --table-lr-scale 0.
TEST(Ftrl, AnotherLearningRateMovesNothingByItself) {
  std::vector<float> params{0.25F, -0.25F}, z(2), n(2);
  FtrlOptions options{.learning_rate = 0.1F, .l1 = 0.1F, .l2 = 0.1F};
  FtrlStep(options, params, std::vector<float>{1, 2}, z, n);
  const std::vector<float> before = params;
  for (const float rate : {0.01F, 1e-6F, 0.2F}) {
    options.learning_rate = rate;
    FtrlStep(options, params, std::vector<float>{0, 0}, z, n);
    EXPECT_NEAR(params[0], before[0], 1e-6);
    EXPECT_NEAR(params[1], before[1], 1e-6);
  }
  const std::vector<float> frozen = params;
  options.learning_rate = 0;
  FtrlStep(options, params, std::vector<float>{1, 2}, z, n);
  EXPECT_EQ(params, frozen);
}

}  // namespace
}  // namespace paceline::kernel
