#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "algo/best_so_far.h"
#include "algo/metrics.h"
#include "data/tokenizer.h"
#include "train/network.h"

namespace paceline::train {

struct Loss {
  torch::Tensor sum;       // over the samples of the batch; a scalar that can be differentiated
  double correct = 0;      // predictions that were right,
  double predictions = 0;  // of so many; 0: nothing is predicted
};

// What evaluation adds up over the held-out samples. Sums are kept apart for each batch and added
// in the order of batches, so the result does not depend on who evaluated which.
struct EvalCounts {
  std::span<double> sums;                // of this batch, zero at first
  std::span<algo::AucAccumulator> aucs;  // of all batches so far
  // Of text from files, for figures of words instead of pieces; else null.
  const data::Tokenizer* tokenizer = nullptr;
};

// A figure of an evaluation, under the name that result.json has. "loss", "accuracy" and "auc" are
// shown to people; so is the one that decides which checkpoint is best.
struct Metric {
  std::string name;
  double value = 0;
};

// What is wanted of a network's outputs: the loss that training lowers, and the figures that it is
// judged by. Immutable.
class Objective {
 public:
  virtual ~Objective() = default;

  // Of a batch with at least one sample. Its sum is that of its samples' losses, whatever else is
  // in the batch: gradients of shards then only need adding.
  virtual Loss Compute(const Tensors& outputs, const Tensors& batch) const = 0;

  // Whether Compute() takes batches of data::MixUp: arrays 2 and 3 are other labels [n] and the
  // weights [n] of the own ones. An objective that ignored them would learn wrong labels, so
  // --mixup is refused with one that does not say yes.
  virtual bool TakesMixedLabels() const { return false; }

  // How many of EvalCounts it needs.
  virtual std::size_t SumCount() const = 0;
  virtual std::size_t AucCount() const { return 0; }
  // Counts a held-out batch. Called without gradients.
  virtual void Count(Network& network, const Tensors& batch, EvalCounts counts) const = 0;
  // The figures that sums (over all batches) and histograms come to, "loss" first.
  virtual std::vector<Metric> Metrics(std::span<const double> sums,
                                      std::span<const algo::AucAccumulator> aucs) const = 0;

  // The figure that says which of two evaluations is the better one.
  struct Deciding {
    const char* metric = "loss";
    algo::Better better = algo::Better::kLower;
  };
  virtual Deciding Decides() const { return {}; }
};

// Cross entropy of output 0, logits [n, classes], with array 1 of the batch, labels [n]; of batches
// that data::MixUp made with both labels, as their weights say. Figures:
// loss, accuracy, top5 (from 6 classes on) and auc (one class against the rest, averaged over the
// classes that occur; up to 100 classes).
class Classification final : public Objective {
 public:
  explicit Classification(std::int64_t classes, double label_smoothing = 0)
      : classes_(classes), label_smoothing_(label_smoothing) {}

  Loss Compute(const Tensors& outputs, const Tensors& batch) const override;
  bool TakesMixedLabels() const override { return true; }
  std::size_t SumCount() const override;
  std::size_t AucCount() const override;
  void Count(Network& network, const Tensors& batch, EvalCounts counts) const override;
  std::vector<Metric> Metrics(std::span<const double> sums,
                              std::span<const algo::AucAccumulator> aucs) const override;
  Deciding Decides() const override { return {"accuracy", algo::Better::kHigher}; }

  std::int64_t classes() const { return classes_; }

 private:
  std::int64_t classes_;
  double label_smoothing_;
};

}  // namespace paceline::train
