#include "kernel/batch_norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

// Planes that are not a multiple of anything, single elements, and one image.
const std::vector<NormShape> kShapes{{1, 1, 3}, {5, 3, 1}, {2, 3, 4}, {3, 2, 17}, {4, 2, 1024}};

struct Tensors {
  std::vector<float> input, output_gradient;
  std::vector<std::uint8_t> mask;
};

Tensors Random(const NormShape& shape) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, shape.plane, shape.batch);
  Tensors tensors;
  for (std::size_t i = 0; i < shape.Elements(); ++i) {
    tensors.input.push_back(3.0F + 2.0F * rng.Normal());
    tensors.output_gradient.push_back(rng.Normal());
    tensors.mask.push_back(static_cast<std::uint8_t>(rng.Below(4) != 0));
  }
  return tensors;
}

std::vector<std::size_t> Indices(const NormShape& shape, std::size_t channel) {
  std::vector<std::size_t> indices;
  for (std::size_t n = 0; n < shape.batch; ++n) {
    for (std::size_t i = 0; i < shape.plane; ++i) {
      indices.push_back((n * shape.channels + channel) * shape.plane + i);
    }
  }
  return indices;
}

ChannelNorm NormOf(const Moments& moments) {
  return {.mean = moments.mean,
          .inverse_std = 1.0F / std::sqrt(moments.variance + 1e-5F),
          .gamma = 1.5F,
          .beta = 0.25F,
          .scale = 4.0F / 3.0F};
}

TEST(ChannelMoments, MatchTheDefinition) {
  for (const NormShape& shape : kShapes) {
    const Tensors t = Random(shape);
    for (std::size_t c = 0; c < shape.channels; ++c) {
      double sum = 0, squares = 0;
      const std::vector<std::size_t> indices = Indices(shape, c);
      const auto count = static_cast<double>(indices.size());
      for (const std::size_t i : indices) sum += double{t.input[i]};
      for (const std::size_t i : indices) squares += std::pow(double{t.input[i]} - sum / count, 2);
      const Moments moments = ChannelMoments(shape, c, t.input);
      EXPECT_NEAR(moments.mean, sum / count, 1e-5);
      EXPECT_NEAR(moments.variance, squares / count, 1e-4);
    }
  }
}

TEST(NormActivate, FollowsItsFormulaAndTouchesOneChannelOnly) {
  for (const NormShape& shape : kShapes) {
    const Tensors t = Random(shape);
    std::vector<std::uint8_t> mask = t.mask;
    std::vector<float> output(shape.Elements(), -7.0F);
    const ChannelNorm norm = NormOf(ChannelMoments(shape, 0, t.input));
    NormActivate(shape, 0, norm, t.input, mask, output);
    for (const std::size_t i : Indices(shape, 0)) {
      const float value = (t.input[i] - norm.mean) * (norm.inverse_std * norm.gamma) + norm.beta;
      const bool passes = value > 0 && t.mask[i] != 0;
      EXPECT_EQ(mask[i] != 0, passes);
      EXPECT_EQ(output[i], passes ? value * norm.scale : 0.0F);
    }
    for (std::size_t c = 1; c < shape.channels; ++c) {
      for (const std::size_t i : Indices(shape, c)) EXPECT_EQ(output[i], -7.0F);
    }
  }
}

// The loss sum(output * output_gradient) as a function of one input, mean and variance included.
double Loss(const NormShape& shape, const Tensors& t, const std::vector<float>& input) {
  const Moments moments = ChannelMoments(shape, 0, input);
  std::vector<std::uint8_t> mask = t.mask;
  std::vector<float> output(shape.Elements());
  NormActivate(shape, 0, NormOf(moments), input, mask, output);
  double loss = 0;
  for (const std::size_t i : Indices(shape, 0)) {
    loss += double{output[i]} * double{t.output_gradient[i]};
  }
  return loss;
}

TEST(NormActivateBackward, MatchesFiniteDifferences) {
  const NormShape shape{.batch = 3, .channels = 2, .plane = 17};
  const Tensors t = Random(shape);
  const ChannelNorm norm = NormOf(ChannelMoments(shape, 0, t.input));
  std::vector<std::uint8_t> mask = t.mask;
  std::vector<float> output(shape.Elements()), gradient(shape.Elements());
  NormActivate(shape, 0, norm, t.input, mask, output);
  NormActivateBackward(shape, 0, norm, t.input, mask, t.output_gradient, gradient);
  constexpr float kStep = 1e-2F;
  for (const std::size_t i : Indices(shape, 0)) {
    std::vector<float> up = t.input, down = t.input;
    up[i] += kStep;
    down[i] -= kStep;
    const double expected = (Loss(shape, t, up) - Loss(shape, t, down)) / (2 * kStep);
    EXPECT_NEAR(gradient[i], expected, 2e-2 * (1 + std::abs(expected))) << "element " << i;
  }
}

TEST(NormActivateBackward, GradientsOfScaleAndShiftAreTheSums) {
  const NormShape shape{.batch = 4, .channels = 2, .plane = 5};
  const Tensors t = Random(shape);
  const ChannelNorm norm = NormOf(ChannelMoments(shape, 1, t.input));
  std::vector<std::uint8_t> mask = t.mask;
  std::vector<float> output(shape.Elements()), gradient(shape.Elements());
  NormActivate(shape, 1, norm, t.input, mask, output);
  const NormGradient result =
      NormActivateBackward(shape, 1, norm, t.input, mask, t.output_gradient, gradient);
  double gamma = 0, beta = 0;
  for (const std::size_t i : Indices(shape, 1)) {
    const double g = mask[i] != 0 ? double{t.output_gradient[i]} * double{norm.scale} : 0;
    beta += g;
    gamma += g * (double{t.input[i]} - double{norm.mean}) * double{norm.inverse_std};
  }
  EXPECT_NEAR(result.gamma, gamma, 1e-4);
  EXPECT_NEAR(result.beta, beta, 1e-4);
}

TEST(NormActivate, LetsNanThrough) {
  const NormShape shape{.batch = 1, .channels = 1, .plane = 2};
  const std::vector<float> input{std::numeric_limits<float>::quiet_NaN(), 1.0F};
  std::vector<std::uint8_t> mask{1, 1};
  std::vector<float> output(2);
  NormActivate(shape, 0, {}, input, mask, output);
  EXPECT_TRUE(std::isnan(output[0]));
}

}  // namespace
}  // namespace paceline::kernel
