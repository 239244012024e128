#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "job/launch_environment.h"
#include "job/launch_plan.h"
#include "job/train_config.h"

namespace paceline::cli {

// Runs a training with parameter servers on this machine: the servers, which are started again
// where they were when they die, and the trainers. `config` is resolved, with its run directory;
// `trainer` is the command line of a trainer. Returns the exit code.
Result<int> LaunchWithServers(const job::TrainConfig& config,
                              const std::vector<std::string>& trainer);

// The same on the hosts of `plan`, with the servers on the hosts in turn.
struct ServersOnHosts {
  std::string address;       // of this machine, as the hosts reach it
  std::uint16_t port = 0;    // of the first server of a host
  bool dry_run = false;      // print the command lines and start nothing
  std::string program_name;  // as messages name it
};
Result<int> LaunchWithServersOnHosts(const job::TrainConfig& config, job::LaunchPlan plan,
                                     const ServersOnHosts& how);

// Becomes the parameter server that `launch` says this process is. Returns only when there is
// nothing to become (DMLC's scheduler: exit code 0), or with why it could not.
Result<int> BecomeServer(const job::TrainConfig& config, const job::LaunchEnvironment& launch);

}  // namespace paceline::cli
