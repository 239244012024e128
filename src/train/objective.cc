#include "train/objective.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace paceline::train {

namespace {

enum ClassificationSum : std::size_t { kLoss, kCorrect, kTop5, kSamples, kSums };

constexpr std::int64_t kTop = 5;
// A histogram of each class is 64 KiB, and every rank sends its own to all.
constexpr std::int64_t kMostAucs = 100;

// One accumulator per class: this class against all others.
double MeanAuc(std::span<const algo::AucAccumulator> classes) {
  double sum = 0;
  int count = 0;
  for (const algo::AucAccumulator& accumulator : classes) {
    if (const std::optional<double> auc = accumulator.Value()) {
      sum += *auc;
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace

Loss Classification::Compute(const Tensors& outputs, const Tensors& batch) const {
  const torch::Tensor& logits = outputs[0];
  const torch::Tensor& labels = batch[1];
  auto options = torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(label_smoothing_);
  Loss loss;
  if (batch.size() > 3) {  // mixed with other samples
    options.reduction(torch::kNone);
    const torch::Tensor own = torch::nn::functional::cross_entropy(logits, labels, options);
    const torch::Tensor other = torch::nn::functional::cross_entropy(logits, batch[2], options);
    loss.sum = torch::lerp(other, own, batch[3]).sum();
  } else {
    options.reduction(torch::kSum);
    loss.sum = torch::nn::functional::cross_entropy(logits, labels, options);
  }
  loss.correct = static_cast<double>(logits.argmax(1).eq(labels).sum().item<std::int64_t>());
  loss.predictions = static_cast<double>(labels.size(0));
  return loss;
}

std::size_t Classification::SumCount() const { return kSums; }

std::size_t Classification::AucCount() const {
  return classes_ <= kMostAucs ? static_cast<std::size_t>(classes_) : 0;
}

void Classification::Count(Network& network, const Tensors& batch, EvalCounts counts) const {
  const torch::Tensor scores =
      network.Forward(batch, ForwardContext{})[0].log_softmax(1).contiguous();
  const auto rows = scores.accessor<float, 2>();
  const auto labels = batch[1].accessor<std::int64_t, 1>();
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const auto row = rows[i];
    const std::int64_t label = labels[i];
    // Classes that come before the right one; of equal ones the first does. What is not a number is
    // never right.
    std::int64_t better = 0;
    for (std::int64_t c = 0; c < row.size(0); ++c) {
      const bool comes_later = row[c] < row[label] || (row[c] == row[label] && c >= label);
      better += comes_later ? 0 : 1;
      if (!counts.aucs.empty()) {
        counts.aucs[static_cast<std::size_t>(c)].Add(std::exp(row[c]), label == c);
      }
    }
    counts.sums[kLoss] -= double{row[label]};
    counts.sums[kCorrect] += better == 0 ? 1 : 0;
    counts.sums[kTop5] += better < kTop ? 1 : 0;
    counts.sums[kSamples] += 1;
  }
}

std::vector<Metric> Classification::Metrics(std::span<const double> sums,
                                            std::span<const algo::AucAccumulator> aucs) const {
  const double samples = std::max(1.0, sums[kSamples]);
  std::vector<Metric> metrics{{"loss", sums[kLoss] / samples},
                              {"accuracy", sums[kCorrect] / samples}};
  if (classes_ > kTop) metrics.push_back({"top5", sums[kTop5] / samples});
  if (!aucs.empty()) metrics.push_back({"auc", MeanAuc(aucs)});
  return metrics;
}

}  // namespace paceline::train
