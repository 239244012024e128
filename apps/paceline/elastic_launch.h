#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "job/train_config.h"

namespace paceline::cli {

// The command line of a run's coordinator; `restarted`: it was there before.
std::vector<std::string> CoordinatorCommand(const job::TrainConfig& config, bool restarted);

// After injected faults the run has to prove itself: kBadData when it cannot.
Status AuditAfterChaos(const std::string& run);

// Runs an elastic training on this machine: a coordinator and workers, which are replaced when they
// die. `config` is resolved, with its run directory; `worker` is the command line of a worker.
// Returns the exit code.
Result<int> LaunchElastic(const job::TrainConfig& config, const std::vector<std::string>& worker);

}  // namespace paceline::cli
