#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/parameters.h"

namespace paceline::train {

struct OptimizerOptions {
  std::string name = "sgd";  // sgd, adam, adagrad
  double momentum = 0;
  double weight_decay = 0;
};

// The gradient of one step: one contiguous span per parameter tensor, in the module's order.
using GradientSpans = std::vector<std::span<float>>;

// Updates parameters and owns the optimiser's own state (velocity, moments, sums of squares), laid
// out like the parameters. Elements are independent, so threads never change the result.
// Thread-compatible; borrows `params`, which must outlive it.
class Optimizer {
 public:
  static Result<Optimizer> Make(const OptimizerOptions& options, FlatTensors& params);

  void Apply(double learning_rate, const GradientSpans& gradient);

  // Updates applied so far; skipped steps do not count.
  std::uint64_t updates() const { return updates_; }
  void SetUpdates(std::uint64_t updates) { updates_ = updates; }

  // State by name ("mean", "variance"), for checkpoints.
  struct State {
    std::string name;
    std::vector<float> values;
  };
  std::vector<State>& states() { return states_; }
  const std::vector<State>& states() const { return states_; }

 private:
  Optimizer(const OptimizerOptions& options, FlatTensors& params)
      : options_(options), params_(&params) {}
  void ApplyRange(double learning_rate, std::size_t offset, std::span<const float> gradient);

  OptimizerOptions options_;
  FlatTensors* params_;
  std::vector<State> states_;
  std::uint64_t updates_ = 0;
};

}  // namespace paceline::train
