#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/line_vector.h"
#include "base/status.h"
#include "data/ctr_dataset.h"
#include "kernel/dense_layer.h"
#include "sparse/fused_model.h"
#include "sparse/unique_ids.h"

namespace paceline::sparse {

// Sizes of a click model; the shape of its samples is fixed by data/ctr_dataset.h.
struct CtrDnnShape {
  std::uint64_t rows = data::kCtrIds;  // of the one table that all slots share
  std::size_t dim = 10;
  std::size_t width = 400;  // of each hidden layer
  std::size_t hidden_layers = 3;
  float init_range = 1;  // of the table: Paddle's Uniform() is [-1, 1)
};

// "ctr-dnn": Paddle's benchmark, 10,431,212 parameters. "ctr-dnn-small": learns in seconds.
Result<CtrDnnShape> FindCtrDnnShape(std::string_view name);

// Samples of CTR-DNN. Row r of the batch is ids[0][r].
struct CtrBatch final : SparseBatch {
  std::vector<float> dense;         // [samples, 13]
  std::vector<std::uint32_t> rows;  // [samples, 26]
  std::vector<std::uint8_t> labels;

  // Memory of Prepare(), kept for the next batch.
  data::CtrSample sample;
  UniqueIds unique;
};

// The click model of Paddle's parameter-server benchmark: the embeddings of 26 categories and 13
// dense features -> hidden layers with ReLU -> two classes, softmax; the loss is the sum of
// cross-entropies. Threads as FusedModel says. Owns scratch memory for the largest batch so far,
// shares the samples.
class CtrDnn final : public FusedModel {
 public:
  struct Options {
    CtrDnnShape shape;
    std::uint64_t order_seed = 0;  // of the shuffle, as in algo::BatchPlan
  };
  // kMismatch when the table has no row for some id of the data.
  static Result<std::unique_ptr<CtrDnn>> Create(const Options& options,
                                                std::shared_ptr<const data::CtrDataset> dataset);

  const std::vector<TableSpec>& tables() const override { return tables_; }
  const std::vector<DenseSpec>& dense() const override { return dense_; }
  void InitialiseDense(std::uint64_t seed, std::span<float> values) const override;

  std::uint64_t dataset_size() const override { return dataset_->size(); }
  Result<std::unique_ptr<SparseBatch>> Prepare(const algo::PositionRange& positions,
                                               std::unique_ptr<SparseBatch> into) const override;

  StepLoss Compute(const SparseBatch& batch, std::span<const float> dense, float scale,
                   std::span<float> dense_gradient, std::span<const TableRows> tables) override;
  void Score(const SparseBatch& batch, std::span<const float> dense,
             std::span<const TableRows> tables, std::vector<Scored>& scored) override;

 private:
  CtrDnn(const Options& options, std::shared_ptr<const data::CtrDataset> dataset);

  std::size_t embedding_floats() const { return data::kCtrSlots * options_.shape.dim; }
  std::size_t InputsOf(std::size_t layer) const;
  template <typename Float>
  std::span<Float> Weights(std::size_t layer, std::span<Float> dense) const;
  template <typename Float>
  std::span<Float> Bias(std::size_t layer, std::span<Float> dense) const;
  std::span<float> Activations(std::size_t layer, std::size_t samples);

  void Reserve(std::size_t samples);
  void GatherInput(const CtrBatch& batch, std::span<const float* const> rows);
  void Forward(const CtrBatch& batch, std::span<const float> dense, const TableRows& rows);
  void ScatterGradient(const CtrBatch& batch, std::span<float> row_gradient) const;

  Options options_;
  std::shared_ptr<const data::CtrDataset> dataset_;
  std::vector<TableSpec> tables_;
  std::vector<DenseSpec> dense_;
  std::vector<std::size_t> weights_offsets_;  // of each layer in the dense buffer; the bias follows

  // Scratch. activations_[l] is the input of layer l, so [0] is the gathered input.
  std::vector<LineVector<float>> activations_;
  LineVector<float> gradient_;       // of the activations of one layer
  LineVector<float> next_gradient_;  // of those of the layer below
  std::vector<float> head_scratch_;
  kernel::DenseRelu layers_;
};

}  // namespace paceline::sparse
