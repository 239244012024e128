#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernel/sparse_product.h"

namespace paceline::kernel {

// Fully connected layers, forward and backward. Matrices are row-major and contiguous.

// Rows of `input` are samples: [samples, inputs] -> [samples, outputs]. Weights are [inputs,
// outputs].
struct DenseShape {
  std::size_t samples = 0;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
};

struct DenseParams {
  std::span<const float> weights;
  std::span<const float> bias;
};

struct DenseReluGradient {
  std::span<const float> input;
  std::span<const float> output;      // of DenseRelu::Forward()
  std::span<float> output_gradient;   // on return: the gradient before the ReLU
  std::span<float> weights_gradient;  // overwritten, like the two below
  std::span<float> bias_gradient;
  // [samples, k] for the first k <= inputs columns of the input; nobody needs that of raw data.
  std::span<float> input_gradient;
};

// Layers with ReLU. What a ReLU made 0, of the input or of the output's gradient, takes no time.
// Thread-compatible; owns memory for the products of the largest layer so far, nothing that decides
// about results.
class DenseRelu {
 public:
  // output = max(0, input * weights + bias); NaN comes through.
  void Forward(const DenseShape& shape, const DenseParams& params, std::span<const float> input,
               std::span<float> output);
  void Backward(const DenseShape& shape, std::span<const float> weights,
                const DenseReluGradient& gradient);

 private:
  void WeightsGradient(const DenseShape& shape, const DenseReluGradient& gradient,
                       double gradient_share);

  SparseProduct product_;
};

// A last layer with two outputs, softmax and cross-entropy in one: weights [inputs, 2], labels 0
// and 1. The two logits only matter by their difference, so one vector does the work of two.
struct TwoClassHead {
  std::size_t inputs = 0;
  std::span<const float> weights;  // [inputs, 2]
  std::span<const float> bias;     // [2]
  std::span<float> scratch;        // 2 * inputs
};

// probability[n] = that sample n is of class 1.
void TwoClassForward(const TwoClassHead& head, std::span<const float> input,
                     std::span<float> probability);

struct TwoClassGradient {
  float scale = 1;  // of all gradients, not of the loss
  std::span<const std::uint8_t> labels;
  std::span<float> weights_gradient;  // overwritten, like the two below
  std::span<float> bias_gradient;
  std::span<float> input_gradient;
};
// The sum of cross-entropies over samples, and its gradients times `scale`.
double TwoClassLoss(const TwoClassHead& head, std::span<const float> input,
                    const TwoClassGradient& gradient);

}  // namespace paceline::kernel
