#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "job/launch_environment.h"
#include "job/train_config.h"
#include "net/loop.h"
#include "ps/job_spec.h"
#include "ps/store.h"

namespace paceline::job {

// The parameters of `job` on the servers of the launch environment, for the trainer that it says
// this process is. The secret comes from the environment. `loop` outlives the store.
Result<std::unique_ptr<ps::Store>> ConnectToServers(net::Loop& loop, const TrainConfig& config,
                                                    const LaunchEnvironment& launch,
                                                    const ps::JobSpec& job, const GetEnv& getenv);

// What the trainers of a run with servers, and whoever goes on with it, must agree on besides its
// tensors. `data` is the fingerprint of the training samples, of any length.
std::string ServerFingerprint(const TrainConfig& config, const std::string& data);

}  // namespace paceline::job
