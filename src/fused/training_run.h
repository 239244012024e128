#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "fused/run_log.h"
#include "fused/trainer_run.h"
#include "job/lease_taker.h"
#include "job/run_summary.h"
#include "job/train_config.h"
#include "ps/job_spec.h"
#include "ps/store.h"

namespace paceline::fused {

// A whole run in this process: the parameters live here too, in RUN/servers/server-0, which is
// where --resume finds them. kNotFinite after too many bad steps, kDisk when a required snapshot or
// the last one cannot be written; kMismatch when a resumed run is another one.
Result<job::RunSummary> TrainLocally(const job::TrainConfig& config,
                                     const RunEnvironment& environment);

// One of several trainers whose parameters live elsewhere, as RunTrainer. `connect` reaches them
// and makes sure that they are of this job. Whoever started the trainers holds the run's lock.
using Connect = std::function<Result<std::unique_ptr<ps::Store>>(const ps::JobSpec& spec)>;
// Of an elastic run: joins it with what all trainers must agree on and the samples of the run. Null
// when nobody lends any more, because the run is complete but for its last evaluation.
using Join = std::function<Result<std::unique_ptr<job::LeaseTaker>>(const std::string& fingerprint,
                                                                    std::uint64_t samples)>;
struct ServerAccess {
  TrainerPlace place;  // not of an elastic run
  Connect connect;
  Join join = nullptr;  // set: an elastic run
};
Result<std::optional<job::RunSummary>> TrainWithServers(const job::TrainConfig& config,
                                                        const RunEnvironment& environment,
                                                        const ServerAccess& access);

}  // namespace paceline::fused
