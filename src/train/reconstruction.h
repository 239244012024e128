#pragma once

#include <vector>

#include "train/objective.h"

namespace paceline::train {

// Output 0 is to be array 0 of the batch: images in 0 .. 1. The loss of a sample is its mean
// squared error. Figures: loss, and psnr, the mean over images of 10 log10(1 / error) in dB, pixels
// outside 0 .. 1 cut off.
class Reconstruction final : public Objective {
 public:
  Loss Compute(const Tensors& outputs, const Tensors& batch) const override;
  std::size_t SumCount() const override;
  void Count(Network& network, const Tensors& batch, EvalCounts counts) const override;
  std::vector<Metric> Metrics(std::span<const double> sums,
                              std::span<const algo::AucAccumulator> aucs) const override;
};

}  // namespace paceline::train
