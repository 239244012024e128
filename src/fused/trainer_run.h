#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "fused/model_factory.h"
#include "fused/run_log.h"
#include "job/run_summary.h"
#include "job/train_config.h"
#include "ps/job_spec.h"
#include "ps/store.h"

namespace paceline::fused {

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
  bool pull_ahead = false;                 // one round, where the mode allows it
};

// One trainer's part of a run, from where the store says that it stands to the end or to a stop
// signal. The first trainer evaluates and writes to `log`; at the end it waits for the others,
// because its last evaluation is of what all of them have done. The others give a summary of what
// they did themselves.
Result<job::RunSummary> RunTrainer(const job::TrainConfig& config,
                                   const RunEnvironment& environment, const ModelWithData& model,
                                   const TrainerContext& context, RunLog& log);

}  // namespace paceline::fused
