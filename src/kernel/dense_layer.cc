#include "kernel/dense_layer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernel/matrix_product.h"

namespace paceline::kernel {

namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);

Vector Load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Eight partial sums, added in order of index at the end.
float Dot(const float* a, const float* b, std::size_t n) {
  Vector sums{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums += Load(a + i) * Load(b + i);
  float total = 0;
  for (std::size_t k = 0; k < kLanes; ++k) total += sums[k];
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// Passes the gradient where the ReLU passed the value, and adds up the columns.
void ReluBackward(const DenseShape& shape, const DenseReluGradient& gradient) {
  float* __restrict sums = gradient.bias_gradient.data();
  std::fill_n(sums, shape.outputs, 0.0F);
  for (std::size_t n = 0; n < shape.samples; ++n) {
    const float* __restrict y = gradient.output.data() + n * shape.outputs;
    float* __restrict g = gradient.output_gradient.data() + n * shape.outputs;
    for (std::size_t o = 0; o < shape.outputs; ++o) {
      g[o] = y[o] <= 0.0F ? 0.0F : g[o];
      sums[o] += g[o];
    }
  }
}

// How much more than for class 0 the weights speak for class 1.
std::span<const float> Difference(const TwoClassHead& head) {
  const std::span<float> difference = head.scratch.first(head.inputs);
  for (std::size_t i = 0; i < head.inputs; ++i) {
    difference[i] = head.weights[2 * i + 1] - head.weights[2 * i];
  }
  return difference;
}

void CheckHead(const TwoClassHead& head, std::size_t input_floats, std::size_t samples) {
  PACELINE_CHECK(head.weights.size() == 2 * head.inputs && head.bias.size() == 2 &&
                     head.scratch.size() == 2 * head.inputs &&
                     input_floats == samples * head.inputs,
                 "spans of a head with two classes");
}

float Sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

// log(1 + exp(x)) without overflow.
double SoftPlus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

void DenseRelu::Forward(const DenseShape& shape, const DenseParams& params,
                        std::span<const float> input, std::span<float> output) {
  PACELINE_CHECK(input.size() == shape.samples * shape.inputs &&
                     output.size() == shape.samples * shape.outputs &&
                     params.weights.size() == shape.inputs * shape.outputs &&
                     params.bias.size() == shape.outputs,
                 "the spans have the layer's shape");
  const ProductShape product{shape.samples, shape.outputs, shape.inputs};
  const MatrixView left{input, shape.inputs}, right{params.weights, shape.outputs};
  if (SparseProduct::Pays(product, NonzeroShare(input, shape.inputs))) {
    product_.Multiply(product, left, right,
                      {output, shape.outputs, 1, /*start=*/params.bias, /*floor=*/0});
    return;
  }
  Multiply(product, left, right, {output, shape.outputs});
  const float* __restrict bias = params.bias.data();
  for (std::size_t n = 0; n < shape.samples; ++n) {
    float* __restrict y = output.data() + n * shape.outputs;
    for (std::size_t o = 0; o < shape.outputs; ++o) {
      const float value = y[o] + bias[o];
      y[o] = value <= 0.0F ? 0.0F : value;
    }
  }
}

// Both factors may have zeros; what lies transposed in memory costs a little more.
void DenseRelu::WeightsGradient(const DenseShape& shape, const DenseReluGradient& gradient,
                                double gradient_share) {
  constexpr double kTransposingCosts = 1.15;
  const auto [samples, inputs, outputs] = shape;
  const double input_share = NonzeroShare(gradient.input, inputs);
  const ProductShape product{inputs, outputs, samples}, transposed{outputs, inputs, samples};
  const MatrixView input{gradient.input, inputs}, before_relu{gradient.output_gradient, outputs};
  const MatrixView input_columns{gradient.input, 1, inputs};
  if (gradient_share * kTransposingCosts < input_share &&
      SparseProduct::Pays(transposed, gradient_share)) {
    product_.Multiply(transposed, {gradient.output_gradient, 1, outputs}, input,
                      {gradient.weights_gradient, 1, outputs});
  } else if (SparseProduct::Pays(product, input_share)) {
    product_.Multiply(product, input_columns, before_relu, {gradient.weights_gradient, outputs});
  } else {
    Multiply(product, input_columns, before_relu, {gradient.weights_gradient, outputs});
  }
}

void DenseRelu::Backward(const DenseShape& shape, std::span<const float> weights,
                         const DenseReluGradient& gradient) {
  PACELINE_CHECK(gradient.input.size() == shape.samples * shape.inputs &&
                     gradient.output.size() == shape.samples * shape.outputs &&
                     gradient.output_gradient.size() == gradient.output.size() &&
                     weights.size() == shape.inputs * shape.outputs &&
                     gradient.weights_gradient.size() == weights.size() &&
                     gradient.bias_gradient.size() == shape.outputs &&
                     gradient.input_gradient.size() <= gradient.input.size(),
                 "the spans have the layer's shape");
  ReluBackward(shape, gradient);
  if (shape.samples == 0) {
    std::ranges::fill(gradient.weights_gradient, 0.0F);
    return;
  }
  const std::span<const float> before_relu = gradient.output_gradient;
  const double share = NonzeroShare(before_relu, shape.outputs);
  WeightsGradient(shape, gradient, share);
  const std::size_t wanted = gradient.input_gradient.size() / shape.samples;
  const ProductShape product{shape.samples, wanted, shape.outputs};
  const MatrixView left{before_relu, shape.outputs}, right{weights, 1, shape.outputs};
  if (SparseProduct::Pays(product, share)) {
    product_.Multiply(product, left, right, {gradient.input_gradient, wanted});
  } else {
    Multiply(product, left, right, {gradient.input_gradient, wanted});
  }
}

void TwoClassForward(const TwoClassHead& head, std::span<const float> input,
                     std::span<float> probability) {
  CheckHead(head, input.size(), probability.size());
  const std::span<const float> difference = Difference(head);
  const float bias = head.bias[1] - head.bias[0];
  for (std::size_t n = 0; n < probability.size(); ++n) {
    const float* x = input.data() + n * head.inputs;
    probability[n] = Sigmoid(Dot(x, difference.data(), head.inputs) + bias);
  }
}

double TwoClassLoss(const TwoClassHead& head, std::span<const float> input,
                    const TwoClassGradient& gradient) {
  CheckHead(head, input.size(), gradient.labels.size());
  PACELINE_CHECK(gradient.weights_gradient.size() == head.weights.size() &&
                     gradient.bias_gradient.size() == 2 &&
                     gradient.input_gradient.size() == input.size(),
                 "gradients have the shape of their values");
  const float* __restrict difference = Difference(head).data();
  float* __restrict sums = head.scratch.data() + head.inputs;  // of the weights of class 1
  std::fill_n(sums, head.inputs, 0.0F);
  const float bias = head.bias[1] - head.bias[0];
  double loss = 0, bias_sum = 0;
  for (std::size_t n = 0; n < gradient.labels.size(); ++n) {
    const float* __restrict x = input.data() + n * head.inputs;
    float* __restrict dx = gradient.input_gradient.data() + n * head.inputs;
    const float logit = Dot(x, difference, head.inputs) + bias;
    const bool positive = gradient.labels[n] != 0;
    loss += SoftPlus(double{positive ? -logit : logit});
    // The gradient by the logit of class 1; that of class 0 is its negative.
    const float g = (Sigmoid(logit) - (positive ? 1.0F : 0.0F)) * gradient.scale;
    bias_sum += double{g};
    for (std::size_t i = 0; i < head.inputs; ++i) {
      sums[i] += g * x[i];
      dx[i] = g * difference[i];
    }
  }
  for (std::size_t i = 0; i < head.inputs; ++i) {
    gradient.weights_gradient[2 * i] = -sums[i];
    gradient.weights_gradient[2 * i + 1] = sums[i];
  }
  gradient.bias_gradient[0] = static_cast<float>(-bias_sum);
  gradient.bias_gradient[1] = static_cast<float>(bias_sum);
  return loss;
}

}  // namespace paceline::kernel
