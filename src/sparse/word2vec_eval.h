#pragma once

#include <cstddef>
#include <span>

#include "data/synthetic_text.h"

namespace paceline::sparse {

// All rows of an embedding table, one after the other.
struct EmbeddingView {
  std::span<const float> values;
  std::size_t dim = 0;

  std::size_t rows() const { return dim == 0 ? 0 : values.size() / dim; }
  std::span<const float> Row(std::size_t row) const { return values.subspan(row * dim, dim); }
};

// Share of the questions "a is to b as c is to ?" for which d is the word nearest by cosine to
// b - a + c (rows scaled to length 1), and for which it is among the four nearest, as the published
// distributed benchmark counts; a, b and c themselves do not count. 0 without questions.
struct AnalogyAccuracy {
  double top1 = 0;
  double top4 = 0;
};

// Takes questions * rows * dim multiplications.
AnalogyAccuracy JudgeAnalogies(const EmbeddingView& embeddings,
                               std::span<const data::AnalogyQuestion> questions);

// Spearman's rank correlation of the cosines with the given similarities.
double SimilarityCorrelation(const EmbeddingView& embeddings,
                             std::span<const data::SimilarityPair> pairs);

// Rank correlation in [-1, 1]; equal values share the mean of their ranks. 0 when one side does not
// vary. Same length.
double Spearman(std::span<const double> left, std::span<const double> right);

}  // namespace paceline::sparse
