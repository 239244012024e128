#include "train/bert.h"

#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "train/text_layers.h"

namespace paceline::train {

namespace {

constexpr double kBertEpsilon = 1e-12;
// The source draws from a normal distribution of deviation 0.02; uniform with the same variance.
const double kBound = 0.02 * std::sqrt(3.0);

LinearTensors TakeLinear(const ParameterTree& tree, const std::string& name) {
  return {tree.Uniform(name + ".weight", kBound), tree.Zero(name + ".bias")};
}

}  // namespace

Bert::Bert(const model::BertSpec& spec, const model::ModelCard& card, std::uint64_t seed)
    : spec_(spec) {
  const ParameterTree tree(*this, card.parameters, seed);
  words_ = tree.Uniform("bert.embeddings.word_embeddings.weight", kBound);
  positions_ = tree.Uniform("bert.embeddings.position_embeddings.weight", kBound);
  segments_ = tree.Uniform("bert.embeddings.token_type_embeddings.weight", kBound);
  embedding_norm_ = TakeLayerNorm(tree, "bert.embeddings.LayerNorm", kBertEpsilon);
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    layers_.push_back(TakeLayer(tree, fmt::format("bert.encoder.layer.{}.", i)));
  }
  pooler_ = TakeLinear(tree, "bert.pooler.dense");
  output_bias_ = tree.Zero("cls.predictions.bias");
  transform_ = TakeLinear(tree, "cls.predictions.transform.dense");
  transform_norm_ = TakeLayerNorm(tree, "cls.predictions.transform.LayerNorm", kBertEpsilon);
  next_sentence_ = TakeLinear(tree, "cls.seq_relationship");
}

Bert::Layer Bert::TakeLayer(const ParameterTree& tree, const std::string& name) const {
  return {TakeLinear(tree, name + "attention.self.query"),
          TakeLinear(tree, name + "attention.self.key"),
          TakeLinear(tree, name + "attention.self.value"),
          TakeLinear(tree, name + "attention.output.dense"),
          TakeLinear(tree, name + "intermediate.dense"),
          TakeLinear(tree, name + "output.dense"),
          TakeLayerNorm(tree, name + "attention.output.LayerNorm", kBertEpsilon),
          TakeLayerNorm(tree, name + "output.LayerNorm", kBertEpsilon)};
}

torch::Tensor Bert::Embed(const Tensors& batch) const {
  const std::int64_t length = batch[0].size(1);
  if (length > spec_.max_length) {
    throw std::runtime_error(
        fmt::format("a sample of {} pieces; the model has {} positions", length, spec_.max_length));
  }
  const torch::Tensor sum = LookUpTied(words_, batch[0]) + positions_.narrow(0, 0, length) +
                            at::embedding(segments_, batch[1]);
  return embedding_norm_(sum.view({-1, spec_.width}));
}

torch::Tensor Bert::Apply(const Layer& layer, const torch::Tensor& x, const Lengths& lengths,
                          const ForwardContext& context, std::uint64_t& dropout) const {
  const torch::Tensor mixed = Attention({.query = layer.query(x),
                                         .key = layer.key(x),
                                         .value = layer.value(x),
                                         .heads = spec_.heads,
                                         .query_lengths = lengths,
                                         .key_lengths = lengths},
                                        spec_.dropout, context, dropout++);
  const torch::Tensor attended = layer.attention_norm(
      AddDropout(x, layer.attention_output(mixed), spec_.dropout, context, dropout++));
  const torch::Tensor inner = at::gelu(layer.intermediate(attended));
  return layer.norm(AddDropout(attended, layer.output(inner), spec_.dropout, context, dropout++));
}

Tensors Bert::Forward(const Tensors& batch, const ForwardContext& context) {
  std::uint64_t dropout = 0;
  const Lengths lengths = LengthsOf(batch[0]);
  const auto await = [&](const auto&... parts) { (context.Await(parts.weight, parts.bias), ...); };
  context.Await(words_, positions_, segments_);
  await(embedding_norm_);
  torch::Tensor x = Dropout(Embed(batch), spec_.dropout, context, dropout++);
  for (const Layer& layer : layers_) {
    await(layer.query, layer.key, layer.value, layer.attention_output, layer.intermediate,
          layer.output, layer.attention_norm, layer.norm);
    x = Apply(layer, x, lengths, context, dropout);
  }
  context.Await(output_bias_);
  await(pooler_, transform_, transform_norm_, next_sentence_);
  const torch::Tensor first = x.view({batch[0].size(0), -1, spec_.width}).select(1, 0);
  const torch::Tensor pooled = at::tanh(pooler_(first));
  const torch::Tensor masked = transform_norm_(at::gelu(transform_(x.index_select(0, batch[2]))));
  return {masked, words_, output_bias_, next_sentence_(pooled)};
}

}  // namespace paceline::train
