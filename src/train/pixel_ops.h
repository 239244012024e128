#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernel/channel_norm.h"
#include "train/norm_relu_dropout.h"

namespace paceline::train {

// Differentiable operators on images [n, height, width, channels], whose channels lie side by side:
// small convolutions are matrix products there, and sums over channels read memory in order.

struct NormInputs {
  at::Tensor images;
  // Undefined: none. A bias that the images should have had added before: batch norm takes it away
  // again, so only the running mean shows it, and its gradient is zero.
  at::Tensor bias;
  at::Tensor addend;  // undefined: none
};
// Batch norm (as PyTorch's: momentum 0.1, epsilon 1e-5), then the addend, then the gate, in one
// pass. Updates the running statistics in training. Threads share channels and change no bit.
at::Tensor NormAddGate(const NormInputs& inputs, const NormTensors& norm, kernel::Gate gate,
                       const ForwardContext& context);

struct ConvSteps {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  // Where backward writes the gradient of the weights, which must be used once; undefined:
  // anywhere. Depthwise ones are small and go anywhere.
  at::Tensor weight_gradient = {};
};

// A convolution without bias as a matrix product of all windows; weight [out, in, kernel, kernel].
// Weights that see nothing but padding cost nothing. Takes kernel^2 times the memory of an image
// for as long as it runs.
at::Tensor WindowConv(const at::Tensor& images, const at::Tensor& weight, const ConvSteps& steps);

// A filter for each channel, weight [channels, 1, kernel, kernel], without bias.
at::Tensor DepthwiseConv(const at::Tensor& images, const at::Tensor& weight,
                         const ConvSteps& steps);

}  // namespace paceline::train
