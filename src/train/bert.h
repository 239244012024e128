#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "model/catalog.h"
#include "model/text_spec.h"
#include "train/attention.h"
#include "train/network.h"
#include "train/parameter_tree.h"

namespace paceline::train {

// The torch module of model/text_spec.h, named as Hugging Face's BertForPreTraining. Takes tokens
// [n, L], segments [n, L] and the masked places [m], flat into n * L. Outputs: 0 = states of the
// masked places [m, width], 1 = the output matrix [vocabulary, width], 2 = its bias, 3 = logits of
// "really the next sentence" [n, 2]. Throws for a sample longer than the model's positions.
class Bert final : public Network {
 public:
  Bert(const model::BertSpec& spec, const model::ModelCard& card, std::uint64_t seed);

  Tensors Forward(const Tensors& batch, const ForwardContext& context) override;
  bool AwaitsParameters() const override { return true; }

 private:
  struct Layer {
    LinearTensors query, key, value, attention_output, intermediate, output;
    LayerNormTensors attention_norm, norm;
  };

  Layer TakeLayer(const ParameterTree& tree, const std::string& name) const;
  torch::Tensor Embed(const Tensors& batch) const;
  torch::Tensor Apply(const Layer& layer, const torch::Tensor& x, const Lengths& lengths,
                      const ForwardContext& context, std::uint64_t& dropout) const;

  model::BertSpec spec_;
  torch::Tensor words_, positions_, segments_;
  LayerNormTensors embedding_norm_;
  std::vector<Layer> layers_;
  LinearTensors pooler_, transform_, next_sentence_;
  LayerNormTensors transform_norm_;
  torch::Tensor output_bias_;
};

}  // namespace paceline::train
