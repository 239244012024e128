#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernel/batch_norm.h"
#include "train/dropout.h"

namespace paceline::train {

// Parameters and running statistics of one batch norm, one value per channel.
struct NormTensors {
  at::Tensor gamma, beta, running_mean, running_variance;
};

inline constexpr double kNormMomentum = 0.1;  // PyTorch's convention; Fluid calls it 0.9
inline constexpr double kNormEpsilon = 1e-5;

// Moves one channel's running statistics towards those of `count` elements. They keep the unbiased
// variance, as PyTorch's do.
void UpdateRunning(double count, const kernel::Moments& moments, float& mean, float& variance);

// Batch norm, ReLU and dropout of [n, channels] or [n, channels, height, width]: PyTorch's
// batch_norm (momentum 0.1, epsilon 1e-5) and relu, with Paceline's dropout, in one pass instead of
// three. Updates the running statistics in training. Threads share channels and change no bit.
at::Tensor NormReluDropout(const at::Tensor& input, const NormTensors& norm, float probability,
                           const ForwardContext& context, std::uint64_t layer);

}  // namespace paceline::train
