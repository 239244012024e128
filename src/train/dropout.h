#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernel/dropout.h"

namespace paceline::train {

// What a forward pass needs besides its input.
struct ForwardContext {
  bool training = false;
  std::uint64_t dropout_key = 0;  // a pure function of (seed, step, shard)

  kernel::DropoutOptions Dropout(std::uint64_t layer, float probability) const;
};

// One byte per element, 1 where kept.
at::Tensor DropoutMask(at::IntArrayRef sizes, const kernel::DropoutOptions& options);

// Dropout whose mask is a pure function of the context and `layer`. The identity in evaluation.
at::Tensor Dropout(const at::Tensor& input, float probability, const ForwardContext& context,
                   std::uint64_t layer);

}  // namespace paceline::train
