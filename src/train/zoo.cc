#include "train/zoo.h"

#include "job/model_choice.h"
#include "model/catalog.h"
#include "model/vgg_spec.h"
#include "train/script_network.h"
#include "train/vgg.h"

namespace paceline::train {

Result<BuiltModel> BuildModel(const job::TrainConfig& config) {
  if (!job::IsScript(config.model)) return BuildModel(config.model, config.seed, config.label_smoothing);
  PACELINE_ASSIGN(const model::ModelCard card, job::ChooseModel(config));
  return LoadScript(config.model, config.loss, card.input_shape);
}

Result<BuiltModel> BuildModel(const std::string& name, std::uint64_t seed, double label_smoothing) {
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(name));
  PACELINE_ASSIGN(const model::VggSpec spec, model::VggSpecByName(card->name));
  return BuiltModel{std::make_shared<Vgg>(spec, seed),
                    std::make_shared<Classification>(card->classes, label_smoothing)};
}

}  // namespace paceline::train
