#include "sparse/word2vec_eval.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "kernel/skip_gram.h"

namespace paceline::sparse {

namespace {

// A copy with rows of length 1; rows of zeros stay.
std::vector<float> Normalised(const EmbeddingView& embeddings) {
  std::vector<float> values(embeddings.values.begin(), embeddings.values.end());
  for (std::size_t row = 0; row < embeddings.rows(); ++row) {
    const std::span<float> part = std::span(values).subspan(row * embeddings.dim, embeddings.dim);
    const float length = std::sqrt(kernel::Dot(part, part));
    if (length == 0) continue;
    for (float& value : part) value /= length;
  }
  return values;
}

// How many words are at least as near as the right one; not more than `enough` are counted.
std::size_t Nearer(const EmbeddingView& rows, const data::AnalogyQuestion& question,
                   std::size_t enough) {
  const auto row = [&](std::int32_t word) { return rows.Row(static_cast<std::size_t>(word)); };
  std::vector<float> target(rows.dim);
  for (std::size_t i = 0; i < rows.dim; ++i) {
    target[i] = row(question.b)[i] - row(question.a)[i] + row(question.c)[i];
  }
  const float right = kernel::Dot(row(question.d), target);
  std::size_t nearer = 0;
  for (std::size_t word = 0; word < rows.rows() && nearer < enough; ++word) {
    const auto id = static_cast<std::int32_t>(word);
    if (id == question.a || id == question.b || id == question.c || id == question.d) continue;
    nearer += kernel::Dot(rows.Row(word), target) >= right ? 1 : 0;
  }
  return nearer;
}

std::vector<double> Ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = static_cast<double>(begin + end - 1) / 2;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

}  // namespace

AnalogyAccuracy JudgeAnalogies(const EmbeddingView& embeddings,
                               std::span<const data::AnalogyQuestion> questions) {
  if (questions.empty()) return {};
  const std::vector<float> values = Normalised(embeddings);
  const EmbeddingView rows{values, embeddings.dim};
  std::size_t first = 0, among_four = 0;
  for (const data::AnalogyQuestion& question : questions) {
    const std::size_t nearer = Nearer(rows, question, 4);
    first += nearer == 0 ? 1 : 0;
    among_four += nearer < 4 ? 1 : 0;
  }
  const auto all = static_cast<double>(questions.size());
  return {static_cast<double>(first) / all, static_cast<double>(among_four) / all};
}

double SimilarityCorrelation(const EmbeddingView& embeddings,
                             std::span<const data::SimilarityPair> pairs) {
  const std::vector<float> values = Normalised(embeddings);
  const EmbeddingView rows{values, embeddings.dim};
  std::vector<double> cosines, similarities;
  for (const data::SimilarityPair& pair : pairs) {
    cosines.push_back(
        static_cast<double>(kernel::Dot(rows.Row(static_cast<std::size_t>(pair.first)),
                                        rows.Row(static_cast<std::size_t>(pair.second)))));
    similarities.push_back(static_cast<double>(pair.similarity));
  }
  return Spearman(cosines, similarities);
}

double Spearman(std::span<const double> left, std::span<const double> right) {
  PACELINE_CHECK(left.size() == right.size(), "same length");
  const std::vector<double> a = Ranks(left), b = Ranks(right);
  const double middle = (static_cast<double>(a.size()) - 1) / 2;
  double both = 0, squares_a = 0, squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - middle) * (b[i] - middle);
    squares_a += (a[i] - middle) * (a[i] - middle);
    squares_b += (b[i] - middle) * (b[i] - middle);
  }
  return squares_a == 0 || squares_b == 0 ? 0 : both / std::sqrt(squares_a * squares_b);
}

}  // namespace paceline::sparse
