#include "model/text_spec.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace paceline::model {

namespace {

// Adds tensors in the order in which PyTorch's modules have them.
class TextCardBuilder {
 public:
  explicit TextCardBuilder(ModelCard& card) : card_(card) {}

  void Add(const std::string& name, std::vector<std::int64_t> shape) {
    card_.parameters.push_back({name, std::move(shape)});
  }
  void Norm(const std::string& name, std::int64_t width) {
    Add(name + ".weight", {width});
    Add(name + ".bias", {width});
  }
  void Linear(const std::string& name, std::int64_t in, std::int64_t out) {
    Add(name + ".weight", {out, in});
    Add(name + ".bias", {out});
  }

  // torch.nn.MultiheadAttention without biases.
  void Attention(const std::string& name, std::int64_t width) {
    Add(name + ".in_proj_weight", {3 * width, width});
    Add(name + ".out_proj.weight", {width, width});
  }

 private:
  ModelCard& card_;
};

// Multiply-adds of one sample, doubled: products with weights, then scores and weighted sums.
std::int64_t LayerFlops(std::int64_t width, std::int64_t inner, std::int64_t length,
                        std::int64_t attentions) {
  const std::int64_t weights = attentions * 4 * width * width + 2 * width * inner;
  return 2 * length * (weights + attentions * 2 * length * width);
}

ModelCard MakeTransformer(const std::string& name) {
  constexpr std::int64_t kLength = 32;  // of the sample whose operations are counted
  const TransformerSpec spec = TransformerSpecByName(name).value();
  ModelCard card;
  card.name = name;
  card.family = Family::kTranslation;
  card.input_shape = {kLength};
  card.vocabulary = spec.vocabulary;
  card.max_length = spec.max_length;
  TextCardBuilder build(card);
  build.Add("embedding.weight", {spec.vocabulary, spec.width});
  for (const bool decoder : {false, true}) {
    const std::string side = decoder ? "decoder" : "encoder";
    for (std::int64_t i = 0; i < spec.layers; ++i) {
      const std::string layer = fmt::format("{}.layers.{}.", side, i);
      build.Attention(layer + "self_attn", spec.width);
      if (decoder) build.Attention(layer + "multihead_attn", spec.width);
      build.Linear(layer + "linear1", spec.width, spec.inner);
      build.Linear(layer + "linear2", spec.inner, spec.width);
      for (const int norm : {1, 2}) build.Norm(fmt::format("{}norm{}", layer, norm), spec.width);
      if (decoder) build.Norm(layer + "norm3", spec.width);
    }
    build.Norm(side + ".norm", spec.width);
  }
  card.forward_flops = spec.layers * (LayerFlops(spec.width, spec.inner, kLength, 1) +
                                      LayerFlops(spec.width, spec.inner, kLength, 2)) +
                       2 * kLength * spec.vocabulary * spec.width;
  card.batch = 64;
  card.beta1 = 0.9;
  card.beta2 = 0.997;
  card.epsilon = 1e-9;
  card.learning_rate = 2.0 / std::sqrt(static_cast<double>(spec.width));
  card.lr_schedule = "inverse-sqrt";
  card.warmup_steps = 8000;
  card.label_smoothing = spec.label_smoothing;
  return card;
}

void AddBertLayer(TextCardBuilder& build, const BertSpec& spec, std::int64_t number) {
  const std::string layer = fmt::format("bert.encoder.layer.{}.", number);
  for (const char* part : {"query", "key", "value"}) {
    build.Linear(layer + "attention.self." + part, spec.width, spec.width);
  }
  build.Linear(layer + "attention.output.dense", spec.width, spec.width);
  build.Norm(layer + "attention.output.LayerNorm", spec.width);
  build.Linear(layer + "intermediate.dense", spec.width, spec.inner);
  build.Linear(layer + "output.dense", spec.inner, spec.width);
  build.Norm(layer + "output.LayerNorm", spec.width);
}

ModelCard MakeBert(const std::string& name) {
  constexpr std::int64_t kLength = 128, kMasks = 20;  // 15 %, rounded up
  const BertSpec spec = BertSpecByName(name).value();
  ModelCard card;
  card.name = name;
  card.family = Family::kMaskedLanguage;
  card.input_shape = {std::min(kLength, spec.max_length)};
  card.vocabulary = spec.vocabulary;
  card.max_length = spec.max_length;
  TextCardBuilder build(card);
  build.Add("bert.embeddings.word_embeddings.weight", {spec.vocabulary, spec.width});
  build.Add("bert.embeddings.position_embeddings.weight", {spec.max_length, spec.width});
  build.Add("bert.embeddings.token_type_embeddings.weight", {2, spec.width});
  build.Norm("bert.embeddings.LayerNorm", spec.width);
  for (std::int64_t i = 0; i < spec.layers; ++i) AddBertLayer(build, spec, i);
  build.Linear("bert.pooler.dense", spec.width, spec.width);
  build.Add("cls.predictions.bias", {spec.vocabulary});
  build.Linear("cls.predictions.transform.dense", spec.width, spec.width);
  build.Norm("cls.predictions.transform.LayerNorm", spec.width);
  build.Linear("cls.seq_relationship", spec.width, 2);
  card.forward_flops = spec.layers * LayerFlops(spec.width, spec.inner, card.input_shape[0], 1) +
                       2 * spec.width * (spec.width + 2 + kMasks * (spec.width + spec.vocabulary));
  card.batch = 16;
  card.learning_rate = 1e-4;
  card.epsilon = 1e-6;
  card.lr_schedule = "linear";
  card.warmup_steps = 4000;
  return card;
}

ModelCard Described(ModelCard card, const char* description, const char* source) {
  card.description = description;
  card.source = source;
  return card;
}

ModelCard Small(ModelCard card, const char* description, double learning_rate) {
  card.learning_rate = learning_rate;
  card.lr_schedule.clear();
  card.warmup_steps = 50;
  return Described(std::move(card), description, "Paceline");
}

constexpr char kFluidTransformer[] =
    "PaddlePaddle FleetX deprecated/benchmark/collective/transformer (WMT16 en-de, 32000 pieces, "
    "Adam 0.9/0.997, 2.0 noam, warm-up 8000, label smoothing 0.1)";
constexpr char kBert[] =
    "Devlin et al. 2018 and PaddlePaddle FleetX deprecated/examples/recompute/bert (length 128, 16 "
    "samples, Adam, warm-up 4000, then linear decay: there over 1e6 steps, here to the end of the "
    "run)";

}  // namespace

Result<TransformerSpec> TransformerSpecByName(std::string_view name) {
  if (name == "transformer-base") return TransformerSpec{};
  if (name == "transformer-big") {
    return TransformerSpec{.width = 1024, .inner = 4096, .heads = 16, .dropout = 0.3F};
  }
  if (name == "transformer-small") {
    return TransformerSpec{.width = 64,
                           .inner = 256,
                           .heads = 4,
                           .layers = 2,
                           .dropout = 0.0F,
                           .vocabulary = 512,
                           .max_length = 64};
  }
  return Status::Error(Code::kNotFound, fmt::format("no Transformer named '{}'", name));
}

Result<BertSpec> BertSpecByName(std::string_view name) {
  if (name == "bert-base") return BertSpec{};
  if (name == "bert-large") {
    return BertSpec{.width = 1024, .inner = 4096, .heads = 16, .layers = 24};
  }
  if (name == "bert-small") {
    return BertSpec{.width = 64,
                    .inner = 256,
                    .heads = 4,
                    .layers = 2,
                    .dropout = 0.0F,
                    .vocabulary = 512,
                    .max_length = 64};
  }
  return Status::Error(Code::kNotFound, fmt::format("no BERT named '{}'", name));
}

std::vector<ModelCard> TextCards() {
  return {
      Described(MakeTransformer("transformer-base"),
                "translation: 6 + 6 layers of 512, shared embedding; a sample is a sentence pair",
                kFluidTransformer),
      Described(MakeTransformer("transformer-big"),
                "translation: 6 + 6 layers of 1024, shared embedding; a sample is a sentence pair",
                kFluidTransformer),
      Small(MakeTransformer("transformer-small"),
            "transformer-base with 2 + 2 layers of 64, for tests and trials", 2e-3),
      Described(MakeBert("bert-base"), "masked words and next sentences: 12 layers of 768", kBert),
      Described(MakeBert("bert-large"), "masked words and next sentences: 24 layers of 1024",
                kBert),
      Small(MakeBert("bert-small"), "bert-base with 2 layers of 64, for tests and trials", 2e-3)};
}

}  // namespace paceline::model
