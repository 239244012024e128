#pragma once

#include "base/status.h"
#include "job/launch_environment.h"
#include "job/train_config.h"

namespace paceline::cli {

// Trains a model with embedding tables in this process, without libtorch, and prints the summary.
// `config` is resolved and says where the run lives; `launch` names the servers of strategy ps, and
// which of the trainers this is. Returns the exit code.
Result<int> TrainFused(job::TrainConfig config, const job::LaunchEnvironment& launch);

}  // namespace paceline::cli
