#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernel/dropout.h"
#include "train/gradient_places.h"
#include "train/parameter_gate.h"

namespace paceline::train {

// What a forward pass needs besides its input.
struct ForwardContext {
  bool training = false;
  std::uint64_t dropout_key = 0;     // a pure function of (seed, step, shard)
  ParameterGate* gate = nullptr;     // none: all parameters are there
  GradientPlaces* places = nullptr;  // none: gradients go anywhere

  at::Tensor PlaceOf(const at::Tensor& parameter) const {
    return places != nullptr ? places->Of(parameter) : at::Tensor();
  }

  // Before a layer uses them; some may be undefined.
  template <typename... Tensors>
  void Await(const Tensors&... parameters) const {
    if (gate != nullptr) (gate->Await(parameters), ...);
  }
  kernel::DropoutOptions Dropout(std::uint64_t layer, float probability) const;
};

// One byte per element, 1 where kept.
at::Tensor DropoutMask(at::IntArrayRef sizes, const kernel::DropoutOptions& options);

// Dropout whose mask is a pure function of the context and `layer`. The identity in evaluation.
at::Tensor Dropout(const at::Tensor& input, float probability, const ForwardContext& context,
                   std::uint64_t layer);

}  // namespace paceline::train
