#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/zoo.h"

namespace paceline::train {

struct ScriptOptions {
  // Of logits [n, `classes` or more] with labels; or "mse", of an output with the shape of its
  // input.
  std::string loss = "cross-entropy";
  std::vector<std::int64_t> input_shape;  // of one sample
  std::int64_t classes = 0;               // of the data
  double label_smoothing = 0;             // of cross entropy
};

// A module that was saved from Python with torch.jit.script or torch.jit.trace, as a model:
// forward takes array 0 of a batch. The file is a program: only for trusted ones. Dropout inside of
// it draws from torch's generator, which is set anew for every shard of a step. Buffers that are no
// floats (batch counters) are neither saved nor exchanged.
// kInvalidArgument when the file cannot be read or does not fit, with libtorch's reason in one
// line.
Result<BuiltModel> LoadScript(const std::string& path, const ScriptOptions& options);

}  // namespace paceline::train
