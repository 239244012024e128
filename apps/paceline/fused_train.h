#pragma once

#include "base/status.h"
#include "job/train_config.h"

namespace paceline::cli {

// Trains a model with embedding tables in this process, without libtorch, and prints the summary.
// `config` is resolved and says where the run lives. Returns the exit code.
Result<int> TrainFused(job::TrainConfig config);

}  // namespace paceline::cli
