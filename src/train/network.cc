#include "train/network.h"

#include "base/rng.h"

namespace paceline::train {

Tensors AsTensors(const data::Batch& batch) {
  Tensors tensors;
  tensors.reserve(batch.tensors.size());
  for (const data::BatchTensor& tensor : batch.tensors) {
    const bool floats = tensor.type == data::ElementType::kFloat;
    tensors.push_back(
        torch::from_blob(tensor.values, tensor.shape, floats ? torch::kFloat : torch::kLong));
  }
  return tensors;
}

void InitUniform(torch::Tensor tensor, double bound, std::uint64_t seed,
                 std::uint64_t tensor_number) {
  CounterRng rng(seed, Purpose::kInit, tensor_number, 0);
  const auto scale = static_cast<float>(2 * bound), low = static_cast<float>(-bound);
  auto* values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = low + scale * rng.Uniform();
}

}  // namespace paceline::train
