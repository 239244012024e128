#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algo/decay_rule.h"
#include "base/status.h"
#include "job/train_config.h"
#include "train/parameters.h"

namespace paceline::train {

struct OptimizerOptions {
  std::string name = "sgd";  // sgd, adam, adamw, adagrad, ftrl, lars, lamb
  double momentum = 0;       // sgd, lars
  double beta1 = 0.9;        // adam, adamw, lamb
  double beta2 = 0.999;
  double epsilon = 1e-8;            // all but sgd and ftrl
  double trust_coefficient = 1e-3;  // lars
  double ftrl_l1 = 0;               // ftrl, whose l2 is the weight decay
  double weight_decay = 0;
  algo::DecayRule decay;  // which tensors it is for; lars and lamb scale no others by norms either
};
Result<OptimizerOptions> OptimizerOf(const job::TrainConfig& config);

// The gradient of one step: one contiguous span per parameter tensor, in the module's order.
using GradientSpans = std::vector<std::span<float>>;

// Updates parameters and owns the optimiser's own state (velocity, moments, sums of squares), laid
// out like the parameters. Elements are independent, and norms of tensors are added block by block,
// so threads never change the result.
// Thread-compatible; borrows `params`, which must outlive it.
class Optimizer {
 public:
  static Result<Optimizer> Make(const OptimizerOptions& options, FlatTensors& params);
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  // The part of all elements that one of several workers updates; of LARS and LAMB whole tensors.
  struct Share {
    std::size_t index = 0, of = 1;
  };
  // The gradient's memory may be used up.
  void Apply(double learning_rate, const GradientSpans& gradient, Share share = {0, 1});

  // Updates applied so far; skipped steps do not count.
  std::uint64_t updates() const { return updates_; }
  void SetUpdates(std::uint64_t updates) { updates_ = updates; }

  // State by name ("mean", "variance"), for checkpoints.
  struct State {
    std::string name;
    std::span<float> values;
  };
  // Lays the state into `memory` of StateFloats(), which outlives this; FlatTensors::MoveTo().
  std::size_t StateFloats() const { return states_.size() * params_->All().size(); }
  void MoveTo(std::span<float> memory, FlatTensors::Values values);

  std::vector<State>& states() { return states_; }
  const std::vector<State>& states() const { return states_; }

 private:
  Optimizer(const OptimizerOptions& options, FlatTensors& params)
      : options_(options), params_(&params) {}
  // A part of one tensor with what belongs to it.
  struct Part {
    std::span<float> params, gradient;
    std::vector<std::span<float>> states;
  };
  Part PartOf(std::size_t offset, std::span<float> gradient);
  void ApplyElements(std::size_t tensor, std::size_t offset, std::span<float> gradient,
                     double learning_rate);
  void ApplyPart(const Part& part, double learning_rate, double weight_decay) const;
  void ApplyLars(std::size_t tensor, std::span<float> gradient, double learning_rate);
  void ApplyLamb(std::size_t tensor, std::span<float> gradient, double learning_rate);
  double DecayOf(std::size_t tensor) const { return decays_[tensor] ? options_.weight_decay : 0; }

  OptimizerOptions options_;
  FlatTensors* params_;
  std::vector<bool> decays_;             // by tensor
  std::vector<std::vector<float>> own_;  // memory of the states, unless they were moved
  std::vector<State> states_;
  std::uint64_t updates_ = 0;
};

}  // namespace paceline::train
