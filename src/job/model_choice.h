#pragma once

#include "base/status.h"
#include "job/train_config.h"
#include "model/catalog.h"

namespace paceline::job {

// True for the name of a TorchScript file.
bool IsScript(const std::string& model);

// The card of what is trained: of the catalogue; of a TorchScript file, whose parameters are known
// only to libtorch; or of a model that `--worker-program` brings, which says more itself.
// kInvalidArgument when there is no such model, or when a file is not trusted.
Result<model::ModelCard> ChooseModel(const TrainConfig& config);

}  // namespace paceline::job
