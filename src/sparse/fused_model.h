#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "algo/batch_plan.h"
#include "base/status.h"

namespace paceline::sparse {

// An embedding table: rows of `dim` floats, addressed by id, made on first touch with values that
// are uniform in [-init_range, init_range) and a function of (seed, table, id) alone.
struct TableSpec {
  std::string name;
  std::uint64_t rows = 0;  // ids are in [0, rows)
  std::size_t dim = 0;
  float init_range = 0;           // 0: zeros
  float learning_rate_scale = 1;  // of the run's learning rate
};

// A tensor that every step uses as a whole. All of a model lie one after the other in one buffer.
struct DenseSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  float learning_rate_scale = 1;

  std::size_t floats() const;
};

// Samples ready to be computed, and the rows of each table that they touch. A model derives its own
// batch from this.
struct SparseBatch {
  virtual ~SparseBatch() = default;
  std::uint64_t samples = 0;
  std::vector<std::vector<std::int64_t>> ids;  // [table][i], each id once
};

// The rows of one table for one batch: values[i] points at the `dim` floats of ids[i]; its gradient
// lies at gradient[i * dim].
struct TableRows {
  std::span<const float* const> values;
  std::span<float> gradient;
};

struct StepLoss {
  double sum = 0;             // over samples
  std::uint64_t samples = 0;  // what the model counts: examples, or words
};

// A model with embedding tables whose forward and backward passes are written by hand instead of by
// autograd. Knows nothing of where parameters live, who applies gradients, or other workers.
// Prepare() is thread-safe; Compute() and Score() use scratch memory, one thread at a time.
class FusedModel {
 public:
  virtual ~FusedModel() = default;

  virtual const std::vector<TableSpec>& tables() const = 0;
  virtual const std::vector<DenseSpec>& dense() const = 0;
  virtual void InitialiseDense(std::uint64_t seed, std::span<float> values) const = 0;

  virtual std::uint64_t dataset_size() const = 0;
  // The samples at these positions of the run; `into` is a batch of this model to reuse, or none.
  virtual Result<std::unique_ptr<SparseBatch>> Prepare(const algo::PositionRange& positions,
                                                       std::unique_ptr<SparseBatch> into) const = 0;

  // Gradients of the sum of losses times `scale`; overwrites `dense_gradient` and the gradients of
  // the rows.
  virtual StepLoss Compute(const SparseBatch& batch, std::span<const float> dense, float scale,
                           std::span<float> dense_gradient, std::span<const TableRows> tables) = 0;

  // What the samples are predicted to be; (score, label) per sample for AUC and the like.
  struct Scored {
    float score = 0;
    float label = 0;
  };
  virtual void Score(const SparseBatch& batch, std::span<const float> dense,
                     std::span<const TableRows> tables, std::vector<Scored>& scored) = 0;
};

}  // namespace paceline::sparse
