#pragma once

#include <optional>

#include "base/status.h"
#include "fused/model_factory.h"
#include "fused/run_log.h"
#include "fused/run_steps.h"
#include "job/run_summary.h"
#include "job/train_config.h"

namespace paceline::fused {

// One trainer's part of a run, from where the store says that it stands to the end or to a stop
// signal. The one that leads evaluates and writes to `log`; at the end it waits for the others,
// because its last evaluation is of what all of them have done. Nothing from those who do not lead,
// or who leave the run to others.
Result<std::optional<job::RunSummary>> RunTrainer(const job::TrainConfig& config,
                                                  const RunEnvironment& environment,
                                                  const ModelWithData& model,
                                                  const TrainerContext& context, RunLog& log);

}  // namespace paceline::fused
