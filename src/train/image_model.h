#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <torch/torch.h>

#include "base/status.h"
#include "train/dropout.h"

namespace paceline::train {

// A classifier of images: what the trainer needs to know of a model. Thread-compatible.
class ImageModel : public torch::nn::Module {
 public:
  // images: [n, channels, height, width]; returns logits [n, classes].
  virtual torch::Tensor Forward(torch::Tensor images, const ForwardContext& context) = 0;
};

// The model of that name with its initial parameters, a pure function of the seed.
Result<std::shared_ptr<ImageModel>> BuildImageModel(const std::string& name, std::uint64_t seed);

// Uniform in +-bound; every element is a pure function of (seed, tensor, element).
void InitUniform(torch::Tensor tensor, double bound, std::uint64_t seed,
                 std::uint64_t tensor_number);

}  // namespace paceline::train
