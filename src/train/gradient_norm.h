#pragma once

#include <span>

#include "base/status.h"
#include "collective/engine.h"

namespace paceline::train {

// The Euclidean norm of a gradient that every worker of `group` has. Each adds up the squares of
// its share of the tensors and tells the others; without a group this worker does all of it. The
// number of workers changes no bit: a tensor is added up by one of them, and the tensors in their
// order. A collective call.
Result<double> GradientNorm(std::span<const std::span<float>> tensors, collective::Engine* group);

}  // namespace paceline::train
