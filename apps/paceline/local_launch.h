#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "job/launch_environment.h"
#include "job/placement.h"
#include "job/train_config.h"

namespace paceline::cli {

// Steps of the whole run, roughly where epochs decide.
std::uint64_t PlannedSteps(const job::TrainConfig& config);

// Makes the directory of the run. kInvalidArgument when a run is there that is not to be resumed.
Status PrepareRunDirectory(const job::TrainConfig& config);

// Becomes that program, with `environment` where the user has set nothing. Returns only with why it
// could not.
Status BecomeProgram(std::vector<std::string> argv,
                     const std::map<std::string, std::string>& environment);

// CPUs and threads for so many workers of this machine, shown on stderr unless --quiet.
Result<job::Placement> PlaceWorkers(const job::TrainConfig& config, std::uint64_t workers);

// Runs the workers of this machine to their end and returns the exit code: all of the job, or
// those of one host (`node`) of a larger one. `worker` is the command line of one of them.
Result<int> LaunchLocally(const job::TrainConfig& config,
                          const std::optional<job::LaunchEnvironment>& node,
                          const std::vector<std::string>& worker);

}  // namespace paceline::cli
