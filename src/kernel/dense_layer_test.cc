#include "kernel/dense_layer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

std::vector<float> Random(std::size_t count, std::uint64_t which) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, which, 0);
  std::vector<float> values(count);
  for (float& value : values) value = rng.Normal();
  return values;
}

std::vector<float> ReferenceForward(const DenseShape& shape, const DenseParams& params,
                                    const std::vector<float>& input) {
  std::vector<float> output(shape.samples * shape.outputs);
  for (std::size_t n = 0; n < shape.samples; ++n) {
    for (std::size_t o = 0; o < shape.outputs; ++o) {
      double sum = params.bias[o];
      for (std::size_t i = 0; i < shape.inputs; ++i) {
        sum += double{input[n * shape.inputs + i]} * params.weights[i * shape.outputs + o];
      }
      output[n * shape.outputs + o] = static_cast<float>(std::max(sum, 0.0));
    }
  }
  return output;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << what << ' ' << i;
  }
}

class DenseLayer : public ::testing::TestWithParam<DenseShape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, DenseLayer,
                         ::testing::Values(DenseShape{1, 1, 1}, DenseShape{3, 5, 7},
                                           DenseShape{8, 16, 8}, DenseShape{33, 27, 40},
                                           DenseShape{40, 70, 90}));

// What a layer below would give: about half of it is 0. Products of large layers skip that.
std::vector<float> Rectified(std::vector<float> values) {
  for (float& value : values) value = std::max(value, 0.0F);
  return values;
}

TEST_P(DenseLayer, ForwardMatchesTheReference) {
  const DenseShape shape = GetParam();
  const auto weights = Random(shape.inputs * shape.outputs, 1), bias = Random(shape.outputs, 2),
             raw = Random(shape.samples * shape.inputs, 3);
  DenseRelu layer;
  for (const auto& input : {raw, Rectified(raw)}) {
    std::vector<float> output(shape.samples * shape.outputs);
    layer.Forward(shape, {weights, bias}, input, output);
    const auto expected = ReferenceForward(shape, {weights, bias}, input);
    ExpectNear(output, {expected.begin(), expected.end()}, "output");
  }
}

void ExpectReferenceBackward(const DenseShape& shape, const std::vector<float>& input,
                             const std::vector<float>& upstream) {
  const auto weights = Random(shape.inputs * shape.outputs, 1), bias = Random(shape.outputs, 2);
  const auto output = ReferenceForward(shape, {weights, bias}, input);
  std::vector<double> dw(weights.size()), db(bias.size()), dx(input.size());
  for (std::size_t n = 0; n < shape.samples; ++n) {
    for (std::size_t o = 0; o < shape.outputs; ++o) {
      if (output[n * shape.outputs + o] <= 0) continue;
      const double g = upstream[n * shape.outputs + o];
      db[o] += g;
      for (std::size_t i = 0; i < shape.inputs; ++i) {
        dw[i * shape.outputs + o] += g * input[n * shape.inputs + i];
        dx[n * shape.inputs + i] += g * weights[i * shape.outputs + o];
      }
    }
  }
  // Whatever was there is overwritten.
  std::vector<float> actual_dw(dw.size(), 9), actual_db(db.size(), 9), actual_dx(dx.size(), 9),
      scratch = upstream;
  DenseRelu().Backward(shape, weights, {input, output, scratch, actual_dw, actual_db, actual_dx});
  ExpectNear(actual_dw, dw, "weights");
  ExpectNear(actual_db, db, "bias");
  ExpectNear(actual_dx, dx, "input");
}

// Of the gradient before the ReLU half is 0, with a rectified one from above three quarters.
TEST_P(DenseLayer, BackwardMatchesTheReference) {
  const DenseShape shape = GetParam();
  const auto input = Random(shape.samples * shape.inputs, 3),
             upstream = Random(shape.samples * shape.outputs, 4);
  ExpectReferenceBackward(shape, input, upstream);
  ExpectReferenceBackward(shape, Rectified(input), upstream);
  ExpectReferenceBackward(shape, Rectified(input), Rectified(upstream));
}

TEST(DenseLayer, InputGradientMayStopAtAColumn) {
  const DenseShape shape{4, 6, 3};
  const auto weights = Random(18, 1), input = Random(24, 2), output = Random(12, 3);
  std::vector<float> upstream = Random(12, 4), again = upstream;
  std::vector<float> dw(18), db(3), all(24), some(4 * 2);
  DenseRelu().Backward(shape, weights, {input, output, upstream, dw, db, all});
  DenseRelu().Backward(shape, weights, {input, output, again, dw, db, some});
  for (std::size_t n = 0; n < 4; ++n) {
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(some[n * 2 + i], all[n * 6 + i], 1e-5);
  }
}

TEST(DenseLayer, NoSamplesGiveZeroGradients) {
  const std::vector<float> weights(6, 1.0F);
  std::vector<float> dw(6, 9), db(3, 9);
  DenseRelu().Forward({0, 2, 3}, {weights, db}, {}, {});
  DenseRelu().Backward({0, 2, 3}, weights, {{}, {}, {}, dw, db, {}});
  EXPECT_EQ(dw, std::vector<float>(6, 0.0F));
  EXPECT_EQ(db, std::vector<float>(3, 0.0F));
}

// A diverged run must be seen, not turned into zeros.
TEST(DenseLayer, NanComesThrough) {
  const std::vector<float> weights{1, 1}, bias{0, 0},
      input{std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> output(2);
  DenseRelu().Forward({1, 1, 2}, {weights, bias}, input, output);
  EXPECT_TRUE(std::isnan(output[0]));
}

std::ptrdiff_t ThreadsOfThisProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(DenseLayer, ComputesOnTheCallingThreadAlone) {
  const DenseShape shape{300, 273, 400};
  const auto weights = Random(shape.inputs * shape.outputs, 1), bias = Random(shape.outputs, 2),
             input = Random(shape.samples * shape.inputs, 3);
  std::vector<float> here(shape.samples * shape.outputs), there(here.size());
  const std::ptrdiff_t before = ThreadsOfThisProcess();
  DenseRelu().Forward(shape, {weights, bias}, input, here);
  EXPECT_EQ(ThreadsOfThisProcess(), before);
  std::jthread([&] {
    const std::ptrdiff_t with_this = ThreadsOfThisProcess();  // a sanitizer may add one of its own
    DenseRelu().Forward(shape, {weights, bias}, input, there);
    EXPECT_EQ(ThreadsOfThisProcess(), with_this);
  }).join();
  EXPECT_EQ(here, there);
}

class TwoClasses : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Samples, TwoClasses, ::testing::Values(0, 1, 2, 9));

TEST_P(TwoClasses, LossAndGradientsAreThoseOfSoftmaxCrossEntropy) {
  constexpr std::size_t kInputs = 13;
  constexpr float kScale = 0.25F;
  const std::size_t samples = GetParam();
  const auto weights = Random(2 * kInputs, 1), bias = Random(2, 2),
             input = Random(samples * kInputs, 3);
  std::vector<std::uint8_t> labels(samples);
  std::vector<double> dw(2 * kInputs), db(2), dx(input.size()), probability(samples);
  double loss = 0;
  for (std::size_t n = 0; n < samples; ++n) {
    labels[n] = n % 3 == 0 ? 1 : 0;
    double logit[2] = {bias[0], bias[1]};
    for (std::size_t i = 0; i < kInputs; ++i) {
      for (std::size_t c = 0; c < 2; ++c) {
        logit[c] += double{input[n * kInputs + i]} * weights[2 * i + c];
      }
    }
    const double sum = std::exp(logit[0]) + std::exp(logit[1]);
    probability[n] = std::exp(logit[1]) / sum;
    loss -= logit[labels[n]] - std::log(sum);
    for (std::size_t c = 0; c < 2; ++c) {
      const double g = kScale * (std::exp(logit[c]) / sum - (labels[n] == c ? 1 : 0));
      db[c] += g;
      for (std::size_t i = 0; i < kInputs; ++i) {
        dw[2 * i + c] += g * input[n * kInputs + i];
        dx[n * kInputs + i] += g * weights[2 * i + c];
      }
    }
  }
  std::vector<float> scratch(2 * kInputs), actual_dw(dw.size(), 9), actual_db(2, 9),
      actual_dx(dx.size(), 9), actual_probability(samples);
  const TwoClassHead head{kInputs, weights, bias, scratch};
  EXPECT_NEAR(TwoClassLoss(head, input, {kScale, labels, actual_dw, actual_db, actual_dx}), loss,
              1e-4);
  ExpectNear(actual_dw, dw, "weights");
  ExpectNear(actual_db, db, "bias");
  ExpectNear(actual_dx, dx, "input");
  TwoClassForward(head, input, actual_probability);
  ExpectNear(actual_probability, probability, "probability");
}

TEST(TwoClasses, LargeLogitsStayFinite) {
  const std::vector<float> weights{0, 1}, bias{0, 0}, input{1000, -1000};
  const std::vector<std::uint8_t> labels{0, 1};
  std::vector<float> scratch(2), dw(2), db(2), dx(2);
  EXPECT_NEAR(TwoClassLoss({1, weights, bias, scratch}, input, {1, labels, dw, db, dx}), 2000, 0.1);
  EXPECT_EQ(dw[1], 2000.0F);
}

}  // namespace
}  // namespace paceline::kernel
