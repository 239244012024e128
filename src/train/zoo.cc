#include "train/zoo.h"

#include "model/catalog.h"
#include "model/text_spec.h"
#include "model/vgg_spec.h"
#include "train/bert.h"
#include "train/text_objectives.h"
#include "train/transformer.h"
#include "train/vgg.h"

namespace paceline::train {

Result<BuiltModel> BuildModel(const std::string& name, std::uint64_t seed) {
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(name));
  if (card->family == model::Family::kTranslation) {
    PACELINE_ASSIGN(const auto spec, model::TransformerSpecByName(card->name));
    return BuiltModel{std::make_shared<Transformer>(spec, *card, seed),
                      std::make_shared<Translation>(card->label_smoothing)};
  }
  if (card->family == model::Family::kMaskedLanguage) {
    PACELINE_ASSIGN(const auto spec, model::BertSpecByName(card->name));
    return BuiltModel{std::make_shared<Bert>(spec, *card, seed),
                      std::make_shared<MaskedLanguage>()};
  }
  PACELINE_ASSIGN(const model::VggSpec spec, model::VggSpecByName(card->name));
  return BuiltModel{std::make_shared<Vgg>(spec, seed),
                    std::make_shared<Classification>(card->classes)};
}

}  // namespace paceline::train
