#include "train/parameter_tree.h"

#include <memory>

#include "base/check.h"
#include "train/network.h"

namespace paceline::train {

namespace {

struct TreeBranch : torch::nn::Module {};

}  // namespace

ParameterTree::ParameterTree(torch::nn::Module& root, const std::vector<model::TensorSpec>& tensors,
                             std::uint64_t seed)
    : seed_(seed) {
  std::map<std::string, std::shared_ptr<torch::nn::Module>> branches;
  for (const model::TensorSpec& spec : tensors) {
    torch::nn::Module* module = &root;
    std::size_t begin = 0;
    for (std::size_t dot = spec.name.find('.'); dot != std::string::npos;
         begin = dot + 1, dot = spec.name.find('.', begin)) {
      auto& branch = branches[spec.name.substr(0, dot)];
      if (!branch) {
        branch = std::make_shared<TreeBranch>();
        module->register_module(spec.name.substr(begin, dot - begin), branch);
      }
      module = branch.get();
    }
    torch::Tensor tensor =
        module->register_parameter(spec.name.substr(begin), torch::zeros(spec.shape));
    entries_[spec.name] = {tensor, entries_.size()};
  }
}

const ParameterTree::Entry& ParameterTree::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  PACELINE_CHECK(found != entries_.end(), "a parameter of the model card");
  return found->second;
}

torch::Tensor ParameterTree::Zero(const std::string& name) const { return Find(name).tensor; }

torch::Tensor ParameterTree::One(const std::string& name) const {
  const torch::NoGradGuard no_grad;
  return Find(name).tensor.fill_(1);
}

torch::Tensor ParameterTree::Uniform(const std::string& name, double bound) const {
  const torch::NoGradGuard no_grad;
  const Entry& entry = Find(name);
  InitUniform(entry.tensor, bound, seed_, entry.number);
  return entry.tensor;
}

torch::Tensor LinearTensors::operator()(const torch::Tensor& rows) const {
  return at::addmm(bias, rows, weight.t());
}

torch::Tensor LayerNormTensors::operator()(const torch::Tensor& rows) const {
  return at::layer_norm(rows, weight.sizes(), weight, bias, epsilon);
}

LayerNormTensors TakeLayerNorm(const ParameterTree& tree, const std::string& name, double epsilon) {
  return {tree.One(name + ".weight"), tree.Zero(name + ".bias"), epsilon};
}

}  // namespace paceline::train
