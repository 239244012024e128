#pragma once

#include "base/status.h"
#include "job/train_config.h"
#include "model/catalog.h"
#include "train/data_source.h"

namespace paceline::train {

// Data of models of text, with vocabulary and length of their card: from --data, or made up.
Result<DataSource> OpenTranslation(const job::TrainConfig& config, const model::ModelCard& card);
Result<DataSource> OpenMaskedLanguage(const job::TrainConfig& config, const model::ModelCard& card);

}  // namespace paceline::train
