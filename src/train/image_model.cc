#include "train/image_model.h"

#include "base/rng.h"
#include "model/catalog.h"
#include "train/vgg.h"

namespace paceline::train {

Result<std::shared_ptr<ImageModel>> BuildImageModel(const std::string& name, std::uint64_t seed) {
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(name));
  PACELINE_ASSIGN(const model::VggSpec spec, model::VggSpecByName(card->name));
  return std::shared_ptr<ImageModel>(std::make_shared<Vgg>(spec, seed));
}

void InitUniform(torch::Tensor tensor, double bound, std::uint64_t seed,
                 std::uint64_t tensor_number) {
  CounterRng rng(seed, Purpose::kInit, tensor_number, 0);
  const auto scale = static_cast<float>(2 * bound), low = static_cast<float>(-bound);
  auto* values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = low + scale * rng.Uniform();
}

}  // namespace paceline::train
