#include "train/zoo.h"

#include "job/model_choice.h"
#include "model/catalog.h"
#include "model/cnn_graphs.h"
#include "model/text_spec.h"
#include "model/vgg_spec.h"
#include "train/bert.h"
#include "train/layer_net.h"
#include "train/reconstruction.h"
#include "train/script_network.h"
#include "train/text_objectives.h"
#include "train/transformer.h"
#include "train/vgg.h"

namespace paceline::train {

namespace {

std::shared_ptr<const Objective> ObjectiveOf(const model::ModelCard& card, double label_smoothing) {
  if (card.family == model::Family::kCompression) return std::make_shared<Reconstruction>();
  return std::make_shared<Classification>(card.classes, label_smoothing);
}

Result<std::shared_ptr<Network>> NetworkOf(const model::ModelCard& card, std::uint64_t seed) {
  if (const auto vgg = model::VggSpecByName(card.name); vgg.ok()) {
    return std::shared_ptr<Network>(std::make_shared<Vgg>(*vgg, seed));
  }
  PACELINE_ASSIGN(const model::LayerGraph graph, model::CnnGraph(card.name));
  return std::shared_ptr<Network>(std::make_shared<LayerNet>(graph, seed));
}

}  // namespace

Result<BuiltModel> BuildModel(const job::TrainConfig& config) {
  if (!job::IsScript(config.model)) {
    return BuildModel(config.model, config.seed, config.label_smoothing);
  }
  PACELINE_ASSIGN(const model::ModelCard card, job::ChooseModel(config));
  return LoadScript(config.model, {.loss = config.loss,
                                   .input_shape = card.input_shape,
                                   .classes = card.classes,
                                   .label_smoothing = config.label_smoothing});
}

Result<BuiltModel> BuildModel(const std::string& name, std::uint64_t seed,
                              std::optional<double> label_smoothing) {
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(name));
  const double smoothing = label_smoothing.value_or(card->label_smoothing);
  if (card->family == model::Family::kTranslation) {
    PACELINE_ASSIGN(const auto spec, model::TransformerSpecByName(card->name));
    return BuiltModel{std::make_shared<Transformer>(spec, *card, seed),
                      std::make_shared<Translation>(smoothing)};
  }
  if (card->family == model::Family::kMaskedLanguage) {
    PACELINE_ASSIGN(const auto spec, model::BertSpecByName(card->name));
    return BuiltModel{std::make_shared<Bert>(spec, *card, seed),
                      std::make_shared<MaskedLanguage>()};
  }
  PACELINE_ASSIGN(std::shared_ptr<Network> network, NetworkOf(*card, seed));
  return BuiltModel{std::move(network), ObjectiveOf(*card, smoothing)};
}

Result<BuiltModel> WithLabelSmoothing(BuiltModel model, double label_smoothing) {
  const auto* const classes = dynamic_cast<const Classification*>(model.objective.get());
  if (classes != nullptr) {
    model.objective = std::make_shared<Classification>(classes->classes(), label_smoothing);
  } else if (label_smoothing != 0) {
    return Status::Error(Code::kInvalidArgument,
                         "--label-smoothing goes with train::Classification, which the model's "
                         "objective is not");
  }
  return model;
}

}  // namespace paceline::train
