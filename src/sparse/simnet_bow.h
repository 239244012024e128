#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/simnet_source.h"
#include "sparse/fused_model.h"

namespace paceline::sparse {

struct SimnetBowOptions {
  std::uint64_t seed = 0;       // of the order of samples
  std::size_t embedding = 128;  // floats per word
  std::size_t hidden = 128;     // floats that queries and titles are compared by
  float margin = 0.1F;
};

// The dictionary of the published benchmark.
inline constexpr std::uint64_t kSimnetDictionary = 1'451'594;

struct SimnetBatch : SparseBatch {
  // Words of all texts as places in ids[0]: the queries, then the titles that fit, then the others.
  std::vector<std::uint32_t> words;
  std::vector<std::uint32_t> ends;  // of each text in `words`; 3 * samples
};

// How often the title that fits comes before the one that does not.
struct PairOrder {
  std::uint64_t right = 0, wrong = 0, equal = 0;

  double Accuracy() const;  // right out of all; 0 without samples
  double Ratio() const;     // right / wrong, the benchmark's pos/neg ratio; infinite without wrong
};

// SimNet-BoW, semantic matching of queries and titles with bags of words (FleetX's benchmark
// ps/semantic_matching): sum of the embeddings of a text's words, softsign, one linear layer (one
// for queries, one for titles), cosine; the loss of a sample is
// max(0, margin - cos(query, positive) + cos(query, negative)).
//
// Table 0 is "embedding"; dense tensors are weights [embedding, hidden] and bias [hidden] of both
// layers. Initial values are Paddle's defaults: Xavier's uniform distribution, zeros for biases.
// Prepare() is thread-safe, the others need one thread at a time. Borrows `source`.
class SimnetBow final : public FusedModel {
 public:
  SimnetBow(const SimnetBowOptions& options, const data::SimnetSource& source);

  const std::vector<TableSpec>& tables() const override { return tables_; }
  const std::vector<DenseSpec>& dense() const override { return dense_; }
  void InitialiseDense(std::uint64_t seed, std::span<float> values) const override;
  std::uint64_t dataset_size() const override { return source_.size(); }

  Result<std::unique_ptr<SparseBatch>> Prepare(const algo::PositionRange& positions,
                                               std::unique_ptr<SparseBatch> into) const override;
  StepLoss Compute(const SparseBatch& batch, std::span<const float> dense, float scale,
                   std::span<float> dense_gradient, std::span<const TableRows> tables) override;

  // Two of each sample, one after the other: the cosine of the title that fits with label 1, and of
  // the one that does not with label 0.
  void Score(const SparseBatch& batch, std::span<const float> dense,
             std::span<const TableRows> tables, std::vector<Scored>& scored) override;
  static PairOrder OrderOf(std::span<const Scored> scored);

 private:
  // The parts of the dense buffer, values or gradients.
  template <typename Float>
  struct Layer {
    std::span<Float> weights, bias;
  };
  template <typename Float>
  Layer<Float> LayerOf(std::span<Float> dense, std::size_t which) const;

  void Pool(const SimnetBatch& batch, const TableRows& rows);
  void Forward(const SimnetBatch& batch, std::span<const float> dense, const TableRows& rows);
  double CosineGradients(std::size_t samples, float scale);
  void LayerBackward(std::size_t first_text, std::size_t texts, std::span<const float> weights,
                     const Layer<float>& gradient);
  void Unpool(const SimnetBatch& batch, const TableRows& rows) const;

  SimnetBowOptions options_;
  const data::SimnetSource& source_;
  std::vector<TableSpec> tables_;
  std::vector<DenseSpec> dense_;

  // Scratch, in the order of SimnetBatch::ends.
  std::vector<float> pooled_;           // [text][embedding], after softsign
  std::vector<float> pooled_gradient_;  // of the loss by the sum before softsign
  std::vector<float> output_;           // [text][hidden]
  std::vector<float> output_gradient_;
};

}  // namespace paceline::sparse
