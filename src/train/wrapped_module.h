#pragma once

#include <memory>
#include <utility>

#include <torch/torch.h>

#include "train/network.h"
#include "train/objective.h"
#include "train/zoo.h"

namespace paceline::train {

// Any torch module with `torch::Tensor forward(torch::Tensor)` as a network: it gets array 0 of a
// batch. Its parameters keep their names. Dropout inside of it draws from torch's generator, which
// is set anew for every shard of a step. Buffers must be floats.
template <typename Wrapped>
class WrappedModule final : public Network {
 public:
  explicit WrappedModule(std::shared_ptr<Wrapped> module) : module_(std::move(module)) {
    for (const auto& parameter : module_->named_parameters()) {
      RegisterUnder(*this, parameter.key(), parameter.value(), TensorRole::kParameter);
    }
    for (const auto& buffer : module_->named_buffers()) {
      if (buffer.value().scalar_type() != torch::kFloat) continue;  // batch counters
      RegisterUnder(*this, buffer.key(), buffer.value(), TensorRole::kBuffer);
    }
  }

  Tensors Forward(const Tensors& batch, const ForwardContext& context) override {
    if (module_->is_training() != context.training) module_->train(context.training);
    if (context.training) torch::manual_seed(context.dropout_key);
    return {module_->forward(batch[0])};
  }

 private:
  std::shared_ptr<Wrapped> module_;
};

// A module whose outputs are logits [n, classes], trained on labels with cross entropy.
template <typename Wrapped>
BuiltModel Classifier(std::shared_ptr<Wrapped> module, std::int64_t classes) {
  return {std::make_shared<WrappedModule<Wrapped>>(std::move(module)),
          std::make_shared<Classification>(classes)};
}

}  // namespace paceline::train
