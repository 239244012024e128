#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "model/vgg_spec.h"
#include "train/network.h"
#include "train/norm_relu_dropout.h"

namespace paceline::train {

// The torch module of model/vgg_spec.h. Parameters carry the names of the model card.
class Vgg final : public Network {
 public:
  Vgg(const model::VggSpec& spec, std::uint64_t seed);

  // From images, array 0, to logits.
  Tensors Forward(const Tensors& batch, const ForwardContext& context) override;
  bool AwaitsParameters() const override { return true; }

 private:
  // A convolution or a fully connected layer, then batch norm, ReLU and dropout.
  struct Block {
    torch::nn::Conv2d conv{nullptr};
    torch::nn::Linear linear{nullptr};
    NormTensors norm;
    float dropout = 0;
    bool pool_after = false;
  };

  // Adds a layer under its number in the section, as torch::nn::Sequential would.
  class Section;

  std::vector<Block> convolutions_;
  Block hidden_;
  torch::nn::Linear second_{nullptr};
  torch::nn::Linear last_{nullptr};
  float classifier_dropout_;
};

}  // namespace paceline::train
