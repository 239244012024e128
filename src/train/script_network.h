#pragma once

#include <string>

#include "base/status.h"
#include "train/zoo.h"

namespace paceline::train {

// A module that was saved from Python with torch.jit.script or torch.jit.trace, as a model:
// forward takes array 0 of a batch. `loss` is "cross-entropy", of logits [n, `classes` or more]
// with labels, or "mse", of an output with the shape of its input. The file is a program: only for
// trusted ones. Dropout inside of it draws from torch's generator, which is set anew for every
// shard of a step. Buffers that are no floats (batch counters) are neither saved nor exchanged.
// kInvalidArgument when the file cannot be read or does not fit, with libtorch's reason in one
// line.
Result<BuiltModel> LoadScript(const std::string& path, const std::string& loss,
                              const std::vector<std::int64_t>& input_shape, std::int64_t classes);

}  // namespace paceline::train
