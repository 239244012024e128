#pragma once

#include <ATen/core/Tensor.h>

namespace paceline::train {

// Where gradients are wanted: a backward pass that writes them there saves a copy. A forward pass
// asks, for the backward pass that follows it.
class GradientPlaces {
 public:
  virtual ~GradientPlaces() = default;
  // Of the parameter's shape, with undefined content, for the only gradient that it gets in this
  // pass; undefined where any memory will do.
  virtual at::Tensor Of(const at::Tensor& parameter) = 0;
};

}  // namespace paceline::train
