#include "train/text_objectives.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include "algo/bleu.h"
#include "data/mteval_words.h"
#include "train/text_layers.h"
#include "train/transformer.h"

namespace paceline::train {

namespace {

constexpr std::int64_t kLongerThanSource = 50;  // "Attention is all you need", 6.1

enum TextSum : std::size_t { kTextLoss, kWeight, kTokenLoss, kCorrectTokens, kTokens, kTextSums };
enum TranslationSum : std::size_t {
  kMatches = kTextSums,
  kTotals = kMatches + algo::BleuCounts::kOrders,
  kLength = kTotals + algo::BleuCounts::kOrders,
  kReferenceLength,
  kTranslationSums
};
enum MaskedSum : std::size_t { kNextCorrect = kTextSums, kNextLoss, kInstances, kMaskedSums };

void AddCounts(const VocabularyCounts& counts, std::span<double> sums) {
  sums[kTextLoss] += counts.weighted_loss;
  sums[kWeight] += counts.weight;
  sums[kTokenLoss] += counts.loss;
  sums[kCorrectTokens] += counts.correct;
  sums[kTokens] += counts.rows;
}

double Accuracy(std::span<const double> sums) {
  return sums[kCorrectTokens] / std::max(1.0, sums[kTokens]);
}
double Perplexity(std::span<const double> sums) {
  return std::exp(sums[kTokenLoss] / std::max(1.0, sums[kTokens]));
}

Predictions TargetPredictions(const Tensors& outputs, const Tensors& batch) {
  return {outputs[0], outputs[1], {}, batch[2], batch[3]};
}

Predictions MaskedPredictions(const Tensors& outputs, const Tensors& batch) {
  return {outputs[0], outputs[1], outputs[2], batch[3], batch[4]};
}

// Up to the end mark or padding.
std::vector<std::int64_t> Reference(const torch::Tensor& row) {
  const auto* ids = row.data_ptr<std::int64_t>();
  const auto* end = std::find_if(ids, ids + row.numel(),
                                 [](std::int64_t id) { return id == kSentenceEnd || id == 0; });
  return {ids, end};
}

// Makes words of pieces, and numbers of words: equal ones of equal words.
class NumberedWords {
 public:
  explicit NumberedWords(const data::Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  std::vector<std::int64_t> Of(const std::vector<std::int64_t>& pieces) {
    if (tokenizer_ == nullptr) return pieces;
    std::vector<std::int32_t> ids;
    for (const std::int64_t piece : pieces) ids.push_back(static_cast<std::int32_t>(piece));
    std::vector<std::int64_t> words;
    for (std::string& word : data::MtevalWords(tokenizer_->Decode(ids))) {
      const std::int64_t next = std::ssize(numbers_);
      words.push_back(numbers_.try_emplace(std::move(word), next).first->second);
    }
    return words;
  }

 private:
  const data::Tokenizer* tokenizer_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

void CountBleu(Translator& network, const Tensors& batch, const EvalCounts& counts) {
  const auto translations = network.Translate(batch[0], batch[0].size(1) + kLongerThanSource);
  NumberedWords words(counts.tokenizer);
  algo::BleuCounts bleu;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    const torch::Tensor row = batch[2][static_cast<std::int64_t>(i)].contiguous();
    bleu.Add(words.Of(translations[i]), words.Of(Reference(row)));
  }
  const std::span<double> sums = counts.sums;
  for (std::size_t n = 0; n < bleu.kOrders; ++n) {
    sums[kMatches + n] += bleu.matches[n];
    sums[kTotals + n] += bleu.totals[n];
  }
  sums[kLength] += bleu.length;
  sums[kReferenceLength] += bleu.reference_length;
}

double Bleu(std::span<const double> sums) {
  algo::BleuCounts bleu{.length = sums[kLength], .reference_length = sums[kReferenceLength]};
  std::copy_n(sums.begin() + kMatches, bleu.kOrders, bleu.matches.begin());
  std::copy_n(sums.begin() + kTotals, bleu.kOrders, bleu.totals.begin());
  return bleu.Value();
}

}  // namespace

Loss Translation::Compute(const Tensors& outputs, const Tensors& batch) const {
  const VocabularyLoss loss =
      CrossEntropyOverVocabulary(TargetPredictions(outputs, batch), label_smoothing_);
  return {loss.sum, loss.correct, loss.rows};
}

std::size_t Translation::SumCount() const { return kTranslationSums; }

void Translation::Count(Network& network, const Tensors& batch, EvalCounts counts) const {
  const Tensors outputs = network.Forward(batch, ForwardContext{});
  AddCounts(CountOverVocabulary(TargetPredictions(outputs, batch)), counts.sums);
  if (auto* translator = dynamic_cast<Translator*>(&network)) {
    CountBleu(*translator, batch, counts);
  }
}

// The weights of a sample add up to 1, so their sum counts samples.
std::vector<Metric> Translation::Metrics(std::span<const double> sums,
                                         std::span<const algo::AucAccumulator> /*aucs*/) const {
  return {{"loss", sums[kWeight] == 0 ? 0 : sums[kTextLoss] / sums[kWeight]},
          {"accuracy", Accuracy(sums)},
          {"perplexity", Perplexity(sums)},
          {"bleu", Bleu(sums)}};
}

Loss MaskedLanguage::Compute(const Tensors& outputs, const Tensors& batch) const {
  const VocabularyLoss words = CrossEntropyOverVocabulary(MaskedPredictions(outputs, batch), 0);
  const torch::Tensor next = at::cross_entropy_loss(outputs[3], batch[5], {}, at::Reduction::Sum);
  return {words.sum + next, words.correct, words.rows};
}

std::size_t MaskedLanguage::SumCount() const { return kMaskedSums; }

void MaskedLanguage::Count(Network& network, const Tensors& batch, EvalCounts counts) const {
  const Tensors outputs = network.Forward(batch, ForwardContext{});
  AddCounts(CountOverVocabulary(MaskedPredictions(outputs, batch)), counts.sums);
  const torch::Tensor& labels = batch[5];
  counts.sums[kNextCorrect] += outputs[3].argmax(1).eq(labels).sum().item<double>();
  counts.sums[kNextLoss] +=
      at::cross_entropy_loss(outputs[3], labels, {}, at::Reduction::Sum).item<double>();
  counts.sums[kInstances] += static_cast<double>(labels.numel());
}

std::vector<Metric> MaskedLanguage::Metrics(std::span<const double> sums,
                                            std::span<const algo::AucAccumulator> /*aucs*/) const {
  const double samples = std::max(1.0, sums[kInstances]);
  return {{"loss", (sums[kTextLoss] + sums[kNextLoss]) / samples},
          {"accuracy", Accuracy(sums)},
          {"perplexity", Perplexity(sums)},
          {"nsp_accuracy", sums[kNextCorrect] / samples}};
}

}  // namespace paceline::train
