#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "fused/model_factory.h"
#include "fused/run_log.h"
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

// Which of how many trainers this is.
struct TrainerPlace {
  std::uint64_t rank = 0;
  std::uint64_t world = 1;
};

struct TrainerContext {
  TrainerPlace place;
  ps::Store& store;                        // of a job that was configured with `spec`
  const ps::JobSpec& spec;                 // of DescribeJob()
  std::function<Status()> save = nullptr;  // makes the state durable; none: servers see to it
};

// One trainer's part of a run, from where the store says that it stands to the end or to a stop
// signal. The first trainer evaluates and writes to `log`; at the end it waits for the others,
// because its last evaluation is of what all of them have done. The others give a summary of what
// they did themselves.
Result<job::RunSummary> RunTrainer(const job::TrainConfig& config,
                                   const RunEnvironment& environment, const ModelWithData& model,
                                   const TrainerContext& context, RunLog& log);

// The same for one of `world` trainers whose parameters live elsewhere. `connect` reaches them and
// makes sure that they are of this job. Whoever started the trainers holds the run's lock.
using Connect = std::function<Result<std::unique_ptr<ps::Store>>(const ps::JobSpec& spec)>;
Result<job::RunSummary> TrainWithServers(const job::TrainConfig& config,
                                         const RunEnvironment& environment,
                                         const TrainerPlace& place, const Connect& connect);

}  // namespace paceline::fused
