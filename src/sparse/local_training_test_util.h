#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/line_vector.h"
#include "kernel/optimizer.h"
#include "sparse/fused_model.h"

namespace paceline::sparse {

// Trains a fused model in one thread with all of its rows in one array: what a model and a
// measurement of its passes need, without servers. Thread-compatible; borrows the model.
class LocalTraining {
 public:
  enum class Optimizer { kAdagrad, kAdam };  // of the table's rows only those that a step touches
  struct Options {
    Optimizer optimizer = Optimizer::kAdagrad;
    std::uint64_t seed = 1;
    float learning_rate = 0.01F;
    float scale = 1;  // of the gradient of the sum of losses
  };
  LocalTraining(FusedModel& model, const Options& options);

  StepLoss Step(const algo::PositionRange& positions);
  // AUC over the samples of another model of the same shape, with the parameters of this one.
  double HeldOutAuc(FusedModel& held_out, std::uint64_t samples);

  LineVector<float>& dense() { return dense_; }

 private:
  struct Table {
    std::size_t dim = 0;
    std::size_t row_floats = 0;
    LineVector<float> rows;       // dim values, then the optimiser's state: one place in memory
    std::vector<float> gradient;  // of the rows of one batch
    std::vector<const float*> values;
  };
  std::vector<TableRows> Locate(const SparseBatch& batch);
  void Update(const SparseBatch& batch);
  void Apply(std::span<float> values, std::span<const float> gradient, float* state) const;

  FusedModel& model_;
  Options options_;
  std::vector<Table> tables_;
  std::size_t planes_;  // of the optimiser's state: floats for each parameter
  LineVector<float> dense_, dense_gradient_, dense_state_;
  kernel::AdamFactors adam_factors_{};
  std::uint64_t steps_ = 0;
  std::unique_ptr<SparseBatch> batch_;
};

}  // namespace paceline::sparse
