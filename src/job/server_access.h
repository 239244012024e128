#pragma once

#include <memory>

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

}  // namespace paceline::job
