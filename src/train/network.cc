#include "train/network.h"

#include "base/rng.h"

namespace paceline::train {

namespace {

// Holds what a dotted name descends into.
struct Branch : torch::nn::Module {};

}  // namespace

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

void RegisterUnder(torch::nn::Module& root, const std::string& name, const torch::Tensor& tensor,
                   TensorRole role) {
  std::shared_ptr<torch::nn::Module> branch;
  torch::nn::Module* module = &root;
  std::size_t begin = 0;
  for (std::size_t dot = name.find('.'); dot != std::string::npos;
       begin = dot + 1, dot = name.find('.', begin)) {
    const std::string step = name.substr(begin, dot - begin);
    const auto children = module->named_children();
    const auto* child = children.find(step);
    branch = child != nullptr ? *child : module->register_module(step, std::make_shared<Branch>());
    module = branch.get();
  }
  const std::string last = name.substr(begin);
  if (role == TensorRole::kParameter) {
    module->register_parameter(last, tensor, tensor.requires_grad());
  } else {
    module->register_buffer(last, tensor);
  }
}

void InitUniform(torch::Tensor tensor, double bound, std::uint64_t seed,
                 std::uint64_t tensor_number) {
  CounterRng rng(seed, Purpose::kInit, tensor_number, 0);
  const auto scale = static_cast<float>(2 * bound), low = static_cast<float>(-bound);
  auto* values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = low + scale * rng.Uniform();
}

}  // namespace paceline::train
