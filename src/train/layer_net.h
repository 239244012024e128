#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "model/layer_graph.h"
#include "train/network.h"
#include "train/norm_relu_dropout.h"

namespace paceline::train {

// The torch module of a layer graph; its parameters are those that the graph lists. Images are
// kept with their channels side by side (pixel_ops.h) from the first layer to the last.
class LayerNet final : public Network {
 public:
  LayerNet(const model::LayerGraph& graph, std::uint64_t seed);

  // From images, array 0 [n, channels, height, width], to rows [n, outputs] or images of that kind.
  Tensors Forward(const Tensors& batch, const ForwardContext& context) override;
  bool AwaitsParameters() const override { return true; }

 private:
  // Weight and bias; the bias of some is undefined.
  struct Affine {
    torch::Tensor weight, bias;
  };
  struct Node {
    model::Layer layer;
    Affine main;
    Affine second;  // of squeeze-excite
    NormTensors norm;
    torch::Tensor bias_before;         // of a norm: that of the convolution before it
    std::vector<model::ValueId> done;  // values that no later layer takes
  };

  torch::nn::Module& ModuleAt(const std::string& path);
  Affine MakeAffine(const std::vector<model::TensorSpec>& tensors, std::size_t first, double bound);
  void MakeParameters(Node& node);
  torch::Tensor Run(const Node& node, const torch::Tensor& x, const torch::Tensor& addend,
                    const ForwardContext& context, std::uint64_t number) const;

  model::ImageSize input_;
  bool any_size_;
  std::vector<Node> nodes_;
  std::uint64_t seed_;
  std::uint64_t tensors_ = 0;  // made so far
};

}  // namespace paceline::train
