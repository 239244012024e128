#include "model/catalog.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "model/cnn_cards.h"
#include "model/sparse_cards.h"
#include "model/text_spec.h"
#include "model/vgg_spec.h"

namespace paceline::model {

namespace {

ModelCard Vgg16() {
  ModelCard card = MakeVggCard("vgg16");
  card.description = "VGG16 with batch norm and dropout for 32x32 images, fc 512";
  card.source =
      "PaddlePaddle Fluid benchmark/cluster/vgg16 (vgg16_bn_drop, CIFAR-10, fc 512, Adam 1e-3)";
  return card;
}

ModelCard Vgg16Small() {
  ModelCard card = MakeVggCard("vgg16-small");
  card.description = "vgg16 with an eighth of the channels: the same layers, for tests and trials";
  card.source = "Paceline";
  return card;
}

std::vector<ModelCard> AllCards() {
  std::vector<ModelCard> cards{Vgg16(), Vgg16Small()};
  std::ranges::move(CnnCards(), std::back_inserter(cards));
  std::ranges::move(TextCards(), std::back_inserter(cards));
  std::ranges::move(SparseCards(), std::back_inserter(cards));
  return cards;
}

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

const char* FamilyName(Family family) {
  switch (family) {
    case Family::kImage: return "image";
    case Family::kCompression: return "compression";
    case Family::kTranslation: return "translation";
    case Family::kMaskedLanguage: return "masked-language";
    case Family::kClick: return "click";
    case Family::kWords: return "words";
    case Family::kMatching: return "matching";
  }
  return "unknown";
}

std::int64_t TensorSpec::Elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t ModelCard::ParameterCount() const {
  return std::accumulate(
      parameters.begin(), parameters.end(), std::int64_t{0},
      [](std::int64_t sum, const TensorSpec& tensor) { return sum + tensor.Elements(); });
}

const std::vector<ModelCard>& Catalog() {
  static const std::vector<ModelCard> catalog = AllCards();
  return catalog;
}

Result<const ModelCard*> FindModel(std::string_view name) {
  const auto& catalog = Catalog();
  const auto exact = std::find_if(catalog.begin(), catalog.end(),
                                  [&](const ModelCard& card) { return card.name == name; });
  if (exact != catalog.end()) return &*exact;
  const auto nearest =
      std::min_element(catalog.begin(), catalog.end(), [&](const ModelCard& a, const ModelCard& b) {
        return EditDistance(name, a.name) < EditDistance(name, b.name);
      });
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("unknown model '{}'; did you mean '{}'? `paceline models` "
                                   "lists all",
                                   name, nearest->name));
}

}  // namespace paceline::model
