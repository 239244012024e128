#pragma once

#include <ATen/core/Tensor.h>

namespace paceline::train {

// Where a forward pass waits for parameters that are still on their way to the module.
class ParameterGate {
 public:
  virtual ~ParameterGate() = default;
  // Returns when this parameter, or the one that this is a view on, has its values; at once for
  // anything else. Throws when it never will.
  virtual void Await(const at::Tensor& parameter) = 0;
};

}  // namespace paceline::train
