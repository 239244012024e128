#include "kernel/channel_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

constexpr double kEpsilon = 1e-5;

// One pixel, one channel, more than a block of pixels, and more than a tile of channels.
const std::vector<PixelShape> kShapes{{1, 3}, {7, 1}, {31, 5}, {33, 17}, {100, 16}, {40, 300}};

struct Case {
  PixelShape shape;
  std::vector<float> input, addend, output_gradient, gamma, beta;

  explicit Case(const PixelShape& of) : shape(of) {
    CounterRng rng(testing::TestSeed(), Purpose::kTest, of.pixels, of.channels);
    for (std::size_t i = 0; i < of.Elements(); ++i) {
      input.push_back(100 + 3 * rng.Normal());  // far from 0: the variance must not drown
      addend.push_back(rng.Normal());
      output_gradient.push_back(rng.Normal());
    }
    for (std::size_t c = 0; c < of.channels; ++c) {
      gamma.push_back(1 + rng.Normal());
      beta.push_back(2 + rng.Normal());
    }
  }
};

// All that the kernels make, and the same in plain doubles.
struct Outcome {
  std::vector<float> mean, variance, inverse, slope, output, input, gamma, beta, addend;

  explicit Outcome(const PixelShape& shape)
      : mean(shape.channels),
        variance(shape.channels),
        inverse(shape.channels),
        slope(shape.channels),
        output(shape.Elements()),
        input(shape.Elements()),
        gamma(shape.channels),
        beta(shape.channels),
        addend(shape.Elements()) {}
};

double Passes(double value, Gate gate) {
  if (gate == Gate::kNone) return 1;
  return value > 0 && (gate == Gate::kRelu || value < 6) ? 1 : 0;
}

double Activated(double value, Gate gate) {
  if (gate == Gate::kNone) return value;
  return std::clamp(value, 0.0, gate == Gate::kRelu6 ? 6.0 : std::numeric_limits<double>::max());
}

Outcome Plain(const Case& given, Gate gate, bool add) {
  const PixelShape& shape = given.shape;
  Outcome result(shape);
  const auto count = static_cast<double>(shape.pixels);
  for (std::size_t c = 0; c < shape.channels; ++c) {
    double mean = 0, variance = 0, sum = 0, dot = 0;
    const auto at = [&](std::size_t p) { return p * shape.channels + c; };
    for (std::size_t p = 0; p < shape.pixels; ++p) mean += double{given.input[at(p)]} / count;
    for (std::size_t p = 0; p < shape.pixels; ++p) {
      variance += std::pow(double{given.input[at(p)]} - mean, 2) / count;
    }
    const double inverse = 1 / std::sqrt(variance + kEpsilon);
    const double slope = inverse * double{given.gamma[c]};
    std::vector<double> gated(shape.pixels);
    for (std::size_t p = 0; p < shape.pixels; ++p) {
      const double centred = double{given.input[at(p)]} - mean;
      const double value =
          centred * slope + double{given.beta[c]} + (add ? double{given.addend[at(p)]} : 0.0);
      result.output[at(p)] = static_cast<float>(Activated(value, gate));
      gated[p] = Passes(value, gate) * double{given.output_gradient[at(p)]};
      result.addend[at(p)] = static_cast<float>(gated[p]);
      sum += gated[p];
      dot += gated[p] * centred;
    }
    for (std::size_t p = 0; p < shape.pixels; ++p) {
      const double centred = double{given.input[at(p)]} - mean;
      result.input[at(p)] = static_cast<float>(
          slope * (gated[p] - sum / count - centred * dot * inverse * inverse / count));
    }
    result.mean[c] = static_cast<float>(mean);
    result.variance[c] = static_cast<float>(variance);
    result.gamma[c] = static_cast<float>(dot * inverse);
    result.beta[c] = static_cast<float>(sum);
  }
  return result;
}

// In ranges of `step` channels, as threads would.
Outcome RunKernels(const Case& given, Gate gate, bool add, std::size_t step) {
  const PixelShape& shape = given.shape;
  Outcome result(shape);
  for (std::size_t begin = 0; begin < shape.channels; begin += step) {
    const ChannelRange range{begin, std::min(begin + step, shape.channels)};
    PixelMoments(shape, range, given.input, result.mean, result.variance);
    for (std::size_t c = range.begin; c < range.end; ++c) {
      result.inverse[c] = static_cast<float>(1 / std::sqrt(double{result.variance[c]} + kEpsilon));
      result.slope[c] = result.inverse[c] * given.gamma[c];
    }
    const ChannelLines lines{result.mean, result.slope, given.beta};
    NormPixels(shape, range, lines, given.input,
               add ? std::span<const float>(given.addend) : std::span<const float>(), gate,
               result.output);
    NormPixelsBackward(shape, range,
                       {.lines = lines,
                        .inverse_deviation = result.inverse,
                        .input = given.input,
                        .output = result.output,
                        .gate = gate},
                       given.output_gradient,
                       {result.input, result.gamma, result.beta,
                        add ? std::span<float>(result.addend) : std::span<float>()});
  }
  return result;
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted, double tolerance,
                const char* what) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(double{got[i]}, double{wanted[i]}, tolerance * (1 + std::abs(double{wanted[i]})))
        << what << " " << i;
  }
}

class ChannelNorm : public ::testing::TestWithParam<Gate> {};

TEST_P(ChannelNorm, MatchesTheDefinition) {
  for (const PixelShape& shape : kShapes) {
    for (const bool add : {false, true}) {
      SCOPED_TRACE(::testing::Message() << shape.pixels << "x" << shape.channels << " " << add);
      const Case given(shape);
      const Outcome ours = RunKernels(given, GetParam(), add, shape.channels);
      const Outcome plain = Plain(given, GetParam(), add);
      ExpectNear(ours.mean, plain.mean, 1e-6, "mean");
      ExpectNear(ours.variance, plain.variance, 1e-4, "variance");
      if (shape.pixels == 1) continue;  // of one value everything hangs on epsilon
      ExpectNear(ours.output, plain.output, 1e-4, "output");
      ExpectNear(ours.input, plain.input, 1e-3, "gradient of the input");
      ExpectNear(ours.gamma, plain.gamma, 1e-3, "gradient of gamma");
      ExpectNear(ours.beta, plain.beta, 1e-3, "gradient of beta");
      if (add) ExpectNear(ours.addend, plain.addend, 1e-6, "gradient of the addend");
    }
  }
}

TEST_P(ChannelNorm, HasTheSameBitsInAnyRanges) {
  const Case given({100, 300});
  const Outcome whole = RunKernels(given, GetParam(), true, 300);
  for (const std::size_t step : {1UL, 16UL, 299UL}) {
    const Outcome parts = RunKernels(given, GetParam(), true, step);
    EXPECT_EQ(parts.output, whole.output);
    EXPECT_EQ(parts.input, whole.input);
    EXPECT_EQ(parts.gamma, whole.gamma);
  }
}

INSTANTIATE_TEST_SUITE_P(Gates, ChannelNorm,
                         ::testing::Values(Gate::kNone, Gate::kRelu, Gate::kRelu6));

TEST(NormPixels, LetsNaNThrough) {
  const std::vector<float> one{1}, zero{0}, nan{std::numeric_limits<float>::quiet_NaN()};
  for (const Gate gate : {Gate::kNone, Gate::kRelu, Gate::kRelu6}) {
    std::vector<float> output(1);
    NormPixels({1, 1}, {0, 1}, {zero, one, zero}, nan, {}, gate, output);
    EXPECT_TRUE(std::isnan(output[0]));
  }
}

}  // namespace
}  // namespace paceline::kernel
