#pragma once

#include <map>
#include <string>

#include "algo/batch_plan.h"
#include "algo/learning_rate.h"
#include "base/status.h"
#include "job/train_config.h"
#include "model/catalog.h"

// The part of a configuration that says how parameters are updated, averaged and judged:
// docs/training.md. Used by Resolve() and Identity().
namespace paceline::job {

// Defaults of the card and of the optimiser for what the user left open.
Status FillRecipe(TrainConfig& config, const model::ModelCard& card);

// kInvalidArgument names the flag. `config` has its defaults.
Status CheckRecipe(const TrainConfig& config, const model::ModelCard& card);

// The learning rate of each step of the run. `config` is resolved; the plan is that of the whole
// run, so every worker of it has the same schedule, also of a run whose workers come and go.
Result<algo::LearningRateSchedule> ScheduleOf(const TrainConfig& config,
                                              const algo::BatchPlan& plan);

// What decides the parameters that come out. Values that everybody has are left out, so that
// checkpoints from before a flag existed still match.
void AddRecipeIdentity(const TrainConfig& config, std::map<std::string, std::string>& identity);

}  // namespace paceline::job
