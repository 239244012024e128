#pragma once

#include <map>
#include <string>

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

// What decides the parameters that come out. Values that everybody has are left out, so that
// checkpoints from before a flag existed still match.
void AddRecipeIdentity(const TrainConfig& config, std::map<std::string, std::string>& identity);

}  // namespace paceline::job
