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

// Ids that mean the borders of a sentence.
constexpr std::int64_t kSentenceStart = 1, kSentenceEnd = 2;

// A network that can also write a translation.
class Translator : public Network {
 public:
  // Greedily, word by word: at most `steps` ids for each row of source ids [n, S], the end mark and
  // what follows it left out. Called without gradients.
  virtual std::vector<std::vector<std::int64_t>> Translate(const torch::Tensor& source,
                                                           std::int64_t steps) = 0;
};

// The torch module of model/text_spec.h, named as torch.nn.Transformer names its parts. Takes
// source ids [n, S] and target input ids [n, T]; outputs: 0 = states [n * T, width], 1 = the output
// matrix [vocabulary, width]. Logits are their product, which the objective computes, only where
// they count. Throws for a sentence longer than the model's positions.
class Transformer final : public Translator {
 public:
  Transformer(const model::TransformerSpec& spec, const model::ModelCard& card, std::uint64_t seed);

  Tensors Forward(const Tensors& batch, const ForwardContext& context) override;
  bool AwaitsParameters() const override { return true; }
  std::vector<std::vector<std::int64_t>> Translate(const torch::Tensor& source,
                                                   std::int64_t steps) override;

 private:
  // Queries, keys and values under each other, then the output; no biases.
  struct AttentionTensors {
    torch::Tensor in, out;
  };
  struct Layer {
    AttentionTensors self, cross;  // cross: of the decoder
    LinearTensors linear1, linear2;
    std::vector<LayerNormTensors> norms;  // before each part
  };
  struct Source {
    torch::Tensor states;  // [n * S, width]
    Lengths lengths;
  };
  // How a decoder layer looks at the source.
  struct Cross {
    torch::Tensor query_matrix;
    torch::Tensor keys_values;  // [n * S, 2 * width]
    Lengths lengths;
  };
  // What a decoder layer remembers while a translation is written.
  struct Memory {
    torch::Tensor self;  // keys and values of the words so far, [n, steps, 2 * width]
    Cross cross;
  };
  // One pass: what dropout needs, and the number of the next dropout layer.
  struct Pass {
    const ForwardContext& context;
    std::uint64_t layer = 0;
  };

  // Before a layer is used.
  static void AwaitLayer(const Layer& layer, const Pass& pass);
  Layer TakeLayer(const ParameterTree& tree, const std::string& name, bool decoder) const;
  // At positions `first` and on, as rows.
  torch::Tensor Embed(const torch::Tensor& ids, std::int64_t first, Pass& pass) const;
  Source Encode(const torch::Tensor& ids, Pass& pass) const;
  torch::Tensor AddSelf(const Layer& layer, const torch::Tensor& x, const Lengths& lengths,
                        bool causal, Pass& pass) const;
  Cross LookAt(const Layer& layer, const Source& source) const;
  torch::Tensor AddCross(const Layer& layer, const torch::Tensor& x, const Lengths& lengths,
                         const Cross& cross, Pass& pass) const;
  torch::Tensor AddFeedForward(const Layer& layer, const torch::Tensor& x, Pass& pass) const;
  torch::Tensor AddSelfOfNext(const Layer& layer, const torch::Tensor& x, std::int64_t position,
                              Memory& memory) const;
  // The likeliest words behind `words`, both [n, 1].
  torch::Tensor NextWords(const torch::Tensor& words, std::int64_t position,
                          std::vector<Memory>& memories, Pass& pass) const;
  // Forgets all others.
  static void KeepRows(const std::vector<std::int64_t>& rows, Memory& memory);

  model::TransformerSpec spec_;
  torch::Tensor embedding_;
  torch::Tensor positions_;  // [max_length, width]
  std::vector<Layer> encoder_, decoder_;
  LayerNormTensors encoder_norm_, decoder_norm_;
};

}  // namespace paceline::train
