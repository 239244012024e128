#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/text_source.h"
#include "data/text_vocabulary.h"
#include "sparse/alias_table.h"
#include "sparse/fused_model.h"

namespace paceline::sparse {

struct Word2VecOptions {
  std::uint64_t seed = 0;
  std::size_t dim = 300;
  std::uint32_t window = 6;     // of a centre: uniform in [1, window]; the published benchmark
                                // calls this 5, but draws from [1, 6]
  std::uint32_t negatives = 5;  // of a centre, from the 0.75th power of the frequencies
  double subsample = 1e-3;      // 0: every word is kept
};

// The pairs of some sentences, grouped by centre.
struct Word2VecBatch : SparseBatch {
  std::uint64_t words = 0;  // read, before frequent ones are left out: what word2vec.c counts
  std::uint64_t pairs = 0;

  struct Group {
    std::uint32_t inputs_end = 0;   // its part of `inputs` begins where the one before ends
    std::uint32_t outputs_end = 0;  // the same in `outputs`
  };
  std::vector<Group> groups;
  std::vector<std::uint32_t> inputs;   // places in ids[0]: words around the centre
  std::vector<std::uint32_t> outputs;  // places in ids[1]: the centre, then its negatives

  // Where a word is in ids, by word: valid when the upper half is `round`. Kept to be used again,
  // because clearing an array of the vocabulary's size would cost more than the batch.
  std::vector<std::uint64_t> places[2];
  std::uint64_t round = 0;
};

// Rows that are changed in place; rows[i] points at those of ids[i].
using MutableRows = std::span<float* const>;

// Word2Vec: skip-gram with negative sampling. A sample is a sentence. Table 0 ("input") holds the
// embeddings, table 1 ("output") what they are compared with; there are no dense tensors. The loss
// is a sum over pairs; StepLoss::samples counts words as they are in the text.
//
// Differs from word2vec.c in one thing: negatives are drawn once per centre and shared by its
// pairs, see kernel/skip_gram.h. word2vec.c draws them for each pair; the published distributed
// benchmark shares them even among 100 pairs. A test compares what is learned with the classic way.
//
// Prepare() is thread-safe, the others need one thread at a time. Borrows `text`.
class Word2Vec final : public FusedModel {
 public:
  // The text has at least one word.
  Word2Vec(const Word2VecOptions& options, const data::TextSource& text);

  const std::vector<TableSpec>& tables() const override { return tables_; }
  const std::vector<DenseSpec>& dense() const override { return dense_; }
  void InitialiseDense(std::uint64_t seed, std::span<float> values) const override;
  std::uint64_t dataset_size() const override { return text_.sentences(); }

  Result<std::unique_ptr<SparseBatch>> Prepare(const algo::PositionRange& positions,
                                               std::unique_ptr<SparseBatch> into) const override;
  StepLoss Compute(const SparseBatch& batch, std::span<const float> dense, float scale,
                   std::span<float> dense_gradient, std::span<const TableRows> tables) override;

  // One step of SGD after each centre, directly on the rows: what word2vec.c does, and about twice
  // as fast as making gradients and applying them.
  StepLoss TrainInPlace(const SparseBatch& batch, std::span<const MutableRows> tables,
                        float learning_rate);

  // The probability of each combination of input and output to be a pair of the text, and whether
  // it is one.
  void Score(const SparseBatch& batch, std::span<const float> dense,
             std::span<const TableRows> tables, std::vector<Scored>& scored) override;

 private:
  void AddSentence(std::uint64_t epoch, std::uint64_t sentence, std::span<const std::int32_t> words,
                   Word2VecBatch& batch) const;

  Word2VecOptions options_;
  const data::TextSource& text_;
  data::Subsampler subsampler_;
  AliasTable negatives_;
  std::vector<TableSpec> tables_;
  std::vector<DenseSpec> dense_;
  std::vector<float> scratch_;
};

}  // namespace paceline::sparse
