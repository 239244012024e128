#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "model/vgg_spec.h"
#include "train/image_model.h"

namespace paceline::train {

// The torch module of model/vgg_spec.h. Parameters carry the names of the model card.
class Vgg final : public ImageModel {
 public:
  Vgg(const model::VggSpec& spec, std::uint64_t seed);

  torch::Tensor Forward(torch::Tensor images, const ForwardContext& context) override;

 private:
  // Batch norm, ReLU and dropout after a convolution or a fully connected layer.
  struct Block {
    torch::nn::Conv2d conv{nullptr};
    torch::nn::Linear linear{nullptr};
    torch::Tensor scale, shift, running_mean, running_variance;
    float dropout = 0;
    bool pool_after = false;
  };

  // Adds a layer under its number in the section, as torch::nn::Sequential would.
  class Section;

  torch::Tensor NormActivateDrop(torch::Tensor input, Block& block, const ForwardContext& context,
                                 std::uint64_t layer);

  std::vector<Block> convolutions_;
  Block hidden_;
  torch::nn::Linear second_{nullptr};
  torch::nn::Linear last_{nullptr};
  float classifier_dropout_;
};

}  // namespace paceline::train
