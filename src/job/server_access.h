#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "job/train_config.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "ps/job_spec.h"
#include "ps/store.h"

namespace paceline::job {

// PACELINE_SERVERS, "host:port,host:port"; empty when it is not set. kInvalidArgument quotes what
// is no address.
Result<std::vector<net::Endpoint>> ServersFromEnvironment(const GetEnv& getenv);

// The parameters of `job` on the servers of the environment, for trainer `rank`. The secret comes
// from the environment too. `loop` outlives the store.
Result<std::unique_ptr<ps::Store>> ConnectToServers(net::Loop& loop, const TrainConfig& config,
                                                    std::uint64_t rank, const ps::JobSpec& job,
                                                    const GetEnv& getenv);

}  // namespace paceline::job
