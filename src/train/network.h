#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "data/batch.h"
#include "train/dropout.h"

namespace paceline::train {

using Tensors = std::vector<torch::Tensor>;

// The arrays of a batch, without a copy.
Tensors AsTensors(const data::Batch& batch);

// A trainable module, as the trainer sees it: from the arrays of a batch to outputs. Which arrays,
// and what the outputs mean, is agreed with the data and with the objective. All parameters and
// buffers are floats. Thread-compatible.
class Network : public torch::nn::Module {
 public:
  virtual Tensors Forward(const Tensors& batch, const ForwardContext& context) = 0;
  // Whether Forward() calls ForwardContext::Await() before it uses a parameter. If not, all of them
  // are there before it is called.
  virtual bool AwaitsParameters() const { return false; }
};

enum class TensorRole { kParameter, kBuffer };

// Registers a tensor under a dotted name: a dot descends into a module, which is made if need be.
void RegisterUnder(torch::nn::Module& root, const std::string& name, const torch::Tensor& tensor,
                   TensorRole role);

// Uniform in +-bound; every element is a pure function of (seed, tensor, element).
void InitUniform(torch::Tensor tensor, double bound, std::uint64_t seed,
                 std::uint64_t tensor_number);

}  // namespace paceline::train
