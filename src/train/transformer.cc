#include "train/transformer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "train/text_layers.h"

namespace paceline::train {

namespace {

constexpr double kTransformerEpsilon = 1e-5;

double Xavier(std::int64_t in, std::int64_t out) {
  return std::sqrt(6.0 / static_cast<double>(in + out));
}

// "Attention is all you need", 3.5: sines on even, cosines on odd columns.
torch::Tensor Sinusoids(std::int64_t length, std::int64_t width) {
  const torch::Tensor table = torch::empty({length, width});
  for (std::int64_t p = 0; p < length; ++p) {
    float* row = table.data_ptr<float>() + p * width;
    for (std::int64_t i = 0; i < width; ++i) {
      const double power = static_cast<double>(i / 2 * 2) / static_cast<double>(width);
      const double angle = static_cast<double>(p) / std::pow(10'000.0, power);
      row[i] = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

template <typename T>
std::vector<T> Picked(const std::vector<T>& values, const std::vector<std::int64_t>& rows) {
  std::vector<T> picked;
  for (const std::int64_t row : rows) picked.push_back(values[static_cast<std::size_t>(row)]);
  return picked;
}

}  // namespace

Transformer::Transformer(const model::TransformerSpec& spec, const model::ModelCard& card,
                         std::uint64_t seed)
    : spec_(spec), positions_(Sinusoids(spec.max_length, spec.width)) {
  const ParameterTree tree(*this, card.parameters, seed);
  // Variance 1 / width: logits of normalised states then start with variance 1.
  embedding_ = tree.Uniform("embedding.weight", std::sqrt(3.0 / static_cast<double>(spec.width)));
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    encoder_.push_back(TakeLayer(tree, fmt::format("encoder.layers.{}.", i), false));
    decoder_.push_back(TakeLayer(tree, fmt::format("decoder.layers.{}.", i), true));
  }
  encoder_norm_ = TakeLayerNorm(tree, "encoder.norm", kTransformerEpsilon);
  decoder_norm_ = TakeLayerNorm(tree, "decoder.norm", kTransformerEpsilon);
}

Transformer::Layer Transformer::TakeLayer(const ParameterTree& tree, const std::string& name,
                                          bool decoder) const {
  const std::int64_t width = spec_.width, inner = spec_.inner;
  const auto attention = [&](const std::string& part) {
    return AttentionTensors{tree.Uniform(name + part + ".in_proj_weight", Xavier(width, 3 * width)),
                            tree.Uniform(name + part + ".out_proj.weight", Xavier(width, width))};
  };
  const auto linear = [&](const std::string& part) {
    return LinearTensors{tree.Uniform(name + part + ".weight", Xavier(width, inner)),
                         tree.Zero(name + part + ".bias")};
  };
  Layer layer;
  layer.self = attention("self_attn");
  if (decoder) layer.cross = attention("multihead_attn");
  layer.linear1 = linear("linear1");
  layer.linear2 = linear("linear2");
  for (int i = 1; i <= (decoder ? 3 : 2); ++i) {
    layer.norms.push_back(
        TakeLayerNorm(tree, fmt::format("{}norm{}", name, i), kTransformerEpsilon));
  }
  return layer;
}

void Transformer::AwaitLayer(const Layer& layer, const Pass& pass) {
  pass.context.Await(layer.self.in, layer.self.out, layer.cross.in, layer.cross.out,
                     layer.linear1.weight, layer.linear1.bias, layer.linear2.weight,
                     layer.linear2.bias);
  for (const LayerNormTensors& norm : layer.norms) pass.context.Await(norm.weight, norm.bias);
}

torch::Tensor Transformer::Embed(const torch::Tensor& ids, std::int64_t first, Pass& pass) const {
  const std::int64_t length = ids.size(1);
  if (first + length > spec_.max_length) {
    throw std::runtime_error(fmt::format("a sentence of {} pieces; the model has {} positions",
                                         first + length, spec_.max_length));
  }
  pass.context.Await(embedding_);
  const torch::Tensor words = LookUpTied(embedding_, ids);
  const torch::Tensor sum = at::add(positions_.narrow(0, first, length), words,
                                    std::sqrt(static_cast<double>(spec_.width)));
  return Dropout(sum.view({-1, spec_.width}), spec_.dropout, pass.context, pass.layer++);
}

torch::Tensor Transformer::AddSelf(const Layer& layer, const torch::Tensor& x,
                                   const Lengths& lengths, bool causal, Pass& pass) const {
  const torch::Tensor mixed = Attention({.query = at::mm(layer.norms[0](x), layer.self.in.t()),
                                         .heads = spec_.heads,
                                         .causal = causal,
                                         .query_lengths = lengths,
                                         .key_lengths = lengths},
                                        spec_.dropout, pass.context, pass.layer++);
  return AddDropout(x, at::mm(mixed, layer.self.out.t()), spec_.dropout, pass.context,
                    pass.layer++);
}

// One split: its gradient is one concatenation.
Transformer::Cross Transformer::LookAt(const Layer& layer, const Source& source) const {
  const auto matrices = layer.cross.in.split_with_sizes({spec_.width, 2 * spec_.width});
  return {matrices[0], at::mm(source.states, matrices[1].t()), source.lengths};
}

torch::Tensor Transformer::AddCross(const Layer& layer, const torch::Tensor& x,
                                    const Lengths& lengths, const Cross& cross, Pass& pass) const {
  const torch::Tensor mixed = Attention({.query = at::mm(layer.norms[1](x), cross.query_matrix.t()),
                                         .key = cross.keys_values,
                                         .heads = spec_.heads,
                                         .query_lengths = lengths,
                                         .key_lengths = cross.lengths},
                                        spec_.dropout, pass.context, pass.layer++);
  return AddDropout(x, at::mm(mixed, layer.cross.out.t()), spec_.dropout, pass.context,
                    pass.layer++);
}

torch::Tensor Transformer::AddFeedForward(const Layer& layer, const torch::Tensor& x,
                                          Pass& pass) const {
  const torch::Tensor inner =
      ReluDropout(layer.linear1(layer.norms.back()(x)), spec_.dropout, pass.context, pass.layer++);
  return AddDropout(x, layer.linear2(inner), spec_.dropout, pass.context, pass.layer++);
}

Transformer::Source Transformer::Encode(const torch::Tensor& ids, Pass& pass) const {
  Source source{Embed(ids, 0, pass), LengthsOf(ids)};
  for (const Layer& layer : encoder_) {
    AwaitLayer(layer, pass);
    source.states = AddSelf(layer, source.states, source.lengths, false, pass);
    source.states = AddFeedForward(layer, source.states, pass);
  }
  pass.context.Await(encoder_norm_.weight, encoder_norm_.bias);
  source.states = encoder_norm_(source.states);
  return source;
}

Tensors Transformer::Forward(const Tensors& batch, const ForwardContext& context) {
  Pass pass{context};
  const Source source = Encode(batch[0], pass);
  const Lengths lengths = LengthsOf(batch[1]);
  torch::Tensor x = Embed(batch[1], 0, pass);
  for (const Layer& layer : decoder_) {
    AwaitLayer(layer, pass);
    x = AddSelf(layer, x, lengths, true, pass);
    x = AddCross(layer, x, lengths, LookAt(layer, source), pass);
    x = AddFeedForward(layer, x, pass);
  }
  context.Await(decoder_norm_.weight, decoder_norm_.bias);
  return {decoder_norm_(x), embedding_};
}

// The next word looks at all words before it and at itself.
torch::Tensor Transformer::AddSelfOfNext(const Layer& layer, const torch::Tensor& x,
                                         std::int64_t position, Memory& memory) const {
  const std::int64_t width = spec_.width;
  const torch::Tensor projected = at::mm(layer.norms[0](x), layer.self.in.t());
  memory.self.select(1, position).copy_(projected.narrow(1, width, 2 * width));
  const auto samples = static_cast<std::size_t>(x.size(0));
  const torch::Tensor mixed = Attention({.query = projected.narrow(1, 0, width),
                                         .key = memory.self.view({-1, 2 * width}),
                                         .heads = spec_.heads,
                                         .query_lengths = Lengths(samples, 1),
                                         .key_lengths = Lengths(samples, position + 1)},
                                        0, {}, 0);
  return x + at::mm(mixed, layer.self.out.t());
}

torch::Tensor Transformer::NextWords(const torch::Tensor& words, std::int64_t position,
                                     std::vector<Memory>& memories, Pass& pass) const {
  const Lengths ones(static_cast<std::size_t>(words.size(0)), 1);
  torch::Tensor x = Embed(words, position, pass);
  for (std::size_t i = 0; i < decoder_.size(); ++i) {
    x = AddSelfOfNext(decoder_[i], x, position, memories[i]);
    x = AddCross(decoder_[i], x, ones, memories[i].cross, pass);
    x = AddFeedForward(decoder_[i], x, pass);
  }
  return at::mm(decoder_norm_(x), embedding_.t()).argmax(1, /*keepdim=*/true);
}

void Transformer::KeepRows(const std::vector<std::int64_t>& rows, Memory& memory) {
  const torch::Tensor kept = torch::tensor(rows);
  const std::int64_t samples = memory.self.size(0), columns = memory.self.size(2);
  memory.self = memory.self.index_select(0, kept);
  torch::Tensor& source = memory.cross.keys_values;
  source = source.view({samples, -1, columns}).index_select(0, kept).view({-1, columns});
  memory.cross.lengths = Picked(memory.cross.lengths, rows);
}

std::vector<std::vector<std::int64_t>> Transformer::Translate(const torch::Tensor& source_ids,
                                                              std::int64_t steps) {
  const ForwardContext context;
  Pass pass{context};
  const Source source = Encode(source_ids, pass);
  const std::int64_t samples = source_ids.size(0);
  steps = std::min(steps, spec_.max_length);
  std::vector<Memory> memories;
  for (const Layer& layer : decoder_) {
    memories.push_back({torch::zeros({samples, steps, 2 * spec_.width}), LookAt(layer, source)});
  }
  std::vector<std::vector<std::int64_t>> translations(static_cast<std::size_t>(samples));
  std::vector<std::vector<std::int64_t>*> rows;  // what is written there; null: it has its end
  for (auto& translation : translations) rows.push_back(&translation);
  torch::Tensor next = torch::full({samples, 1}, kSentenceStart, torch::kLong);
  for (std::int64_t position = 0; position < steps; ++position) {
    next = NextWords(next, position, memories, pass);
    std::vector<std::int64_t> going;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t id = next.data_ptr<std::int64_t>()[i];
      if (id == kSentenceEnd) rows[i] = nullptr;
      if (rows[i] == nullptr) continue;
      rows[i]->push_back(id);
      going.push_back(static_cast<std::int64_t>(i));
    }
    if (going.empty()) break;
    if (2 * going.size() > rows.size()) continue;
    // Most of the work would be for nothing.
    for (Memory& memory : memories) KeepRows(going, memory);
    next = next.index_select(0, torch::tensor(going));
    rows = Picked(rows, going);
  }
  return translations;
}

}  // namespace paceline::train
