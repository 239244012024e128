#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/parameters.h"

namespace paceline::train {

// An exponential moving average of parameters and running statistics, which often does better on
// held-out samples than the parameters themselves. Laid out like them. Thread-compatible; borrows
// both, which must outlive it.
class ParameterAverage {
 public:
  // Begins with what they are.
  ParameterAverage(double decay, FlatTensors& params, FlatTensors& buffers);

  // After the `updates`-th update, counted from 1. The first ones count more, so that where the
  // parameters began is soon forgotten: the decay is at most (1 + updates) / (10 + updates).
  void Update(std::uint64_t updates);

  // Exchanges the average and what it is an average of.
  void Swap();

  std::span<float> params() { return params_average_; }
  std::span<float> buffers() { return buffers_average_; }
  std::span<const float> params() const { return params_average_; }
  std::span<const float> buffers() const { return buffers_average_; }
  std::string Hash() const { return params_->HashOf(params_average_); }

 private:
  double decay_;
  FlatTensors* params_;
  FlatTensors* buffers_;
  std::vector<float> params_average_, buffers_average_;
};

}  // namespace paceline::train
