#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "model/catalog.h"

namespace paceline::train {

// Gives a module the parameters of its model card: same names (a dot descends into a submodule),
// same order, by construction. All are zero at first. Thread-compatible.
class ParameterTree {
 public:
  ParameterTree(torch::nn::Module& root, const std::vector<model::TensorSpec>& tensors,
                std::uint64_t seed);

  // The tensor of that name, which must be in the card.
  torch::Tensor Zero(const std::string& name) const;
  torch::Tensor One(const std::string& name) const;
  // Uniform in +-bound; a pure function of the seed and the place of the tensor in the card.
  torch::Tensor Uniform(const std::string& name, double bound) const;

 private:
  struct Entry {
    torch::Tensor tensor;
    std::uint64_t number = 0;
  };
  const Entry& Find(const std::string& name) const;

  std::uint64_t seed_;
  std::map<std::string, Entry> entries_;
};

// weight [outputs, inputs] and bias [outputs].
struct LinearTensors {
  torch::Tensor weight, bias;

  torch::Tensor operator()(const torch::Tensor& rows) const;
};

// weight and bias of a layer norm.
struct LayerNormTensors {
  torch::Tensor weight, bias;
  double epsilon = 1e-5;

  torch::Tensor operator()(const torch::Tensor& rows) const;
};
LayerNormTensors TakeLayerNorm(const ParameterTree& tree, const std::string& name, double epsilon);

}  // namespace paceline::train
