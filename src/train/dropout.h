#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace paceline::train {

// What a forward pass needs besides its input.
struct ForwardContext {
  bool training = false;
  std::uint64_t dropout_key = 0;  // a pure function of (seed, step, shard)
};

enum class Activation { kNone, kRelu };

// Activation and dropout in one pass and in place: `input` must be a temporary that nothing else
// needs (the output of a batch norm or of a pool). The mask is a pure function of the context and
// `layer`; in evaluation only the activation is applied.
at::Tensor ActivateAndDrop(at::Tensor input, Activation activation, float probability,
                           const ForwardContext& context, std::uint64_t layer);

}  // namespace paceline::train
