#pragma once

#include <cstddef>
#include <vector>

#include "train/objective.h"

namespace paceline::train {

// Label-smoothed cross entropy of a Transformer's outputs with target output ids, array 2, each
// token counted with its weight, array 3. Figures, over held-out samples and without smoothing:
// loss, accuracy and perplexity of pieces with the right ones before them, and bleu (0 to 1) of
// greedy translations of all of them: over words as data/mteval_words.h cuts them if there is a
// tokenizer to make text of pieces, else each piece is a word.
class Translation final : public Objective {
 public:
  explicit Translation(double label_smoothing) : label_smoothing_(label_smoothing) {}

  Loss Compute(const Tensors& outputs, const Tensors& batch) const override;
  std::size_t SumCount() const override;
  void Count(Network& network, const Tensors& batch, EvalCounts counts) const override;
  std::vector<Metric> Metrics(std::span<const double> sums,
                              std::span<const algo::AucAccumulator> aucs) const override;

 private:
  double label_smoothing_;
};

// Cross entropy of BERT's outputs with the masked words, array 3, counted with the weights of array
// 4, plus that of the next-sentence label, array 5, for each sample. Figures: loss (both), accuracy
// and perplexity of masked words, nsp_accuracy.
class MaskedLanguage final : public Objective {
 public:
  Loss Compute(const Tensors& outputs, const Tensors& batch) const override;
  std::size_t SumCount() const override;
  void Count(Network& network, const Tensors& batch, EvalCounts counts) const override;
  std::vector<Metric> Metrics(std::span<const double> sums,
                              std::span<const algo::AucAccumulator> aucs) const override;
};

}  // namespace paceline::train
