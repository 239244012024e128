#include "kernel/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <cblas.h>

#include "base/check.h"
#include "kernel/dropout.h"
#include "kernel/exponential.h"

namespace paceline::kernel {

namespace {

blasint Length(std::size_t n) {
  PACELINE_CHECK(n <= std::numeric_limits<blasint>::max(), "a length that BLAS can count");
  return static_cast<blasint>(n);
}

struct Factor {
  const float* values;
  std::size_t step;
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
};
struct Product {
  std::size_t rows, columns, inner;
  float scale = 1;
};

void Multiply(const Product& product, const Factor& a, const Factor& b,
              const HeadGradientRows& out) {
  cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, Length(product.rows),
              Length(product.columns), Length(product.inner), product.scale, a.values,
              Length(a.step), b.values, Length(b.step), 0.0F, out.first, Length(out.step));
}

float Scale(const HeadShape& shape) { return 1.0F / std::sqrt(static_cast<float>(shape.width)); }

// Keys that a query sees.
std::size_t Seen(const HeadShape& shape, std::size_t query) {
  return shape.causal ? std::min(shape.keys, query + 1) : shape.keys;
}

constexpr std::size_t kParts = 8;  // sums side by side, added in order at the end

template <typename Term>
float Sum(std::size_t count, const Term& term) {
  float parts[kParts] = {};
  std::size_t i = 0;
  for (; i + kParts <= count; i += kParts) {
    for (std::size_t k = 0; k < kParts; ++k) parts[k] += term(i + k);
  }
  float total = 0;
  for (const float part : parts) total += part;
  for (; i < count; ++i) total += term(i);
  return total;
}

// In place; what is not seen becomes 0.
void Softmax(const HeadShape& shape, float* scores) {
  for (std::size_t q = 0; q < shape.queries; ++q) {
    float* row = scores + q * shape.keys;
    const std::size_t seen = Seen(shape, q);
    float greatest = row[0];
    for (std::size_t k = 1; k < seen; ++k) greatest = greatest < row[k] ? row[k] : greatest;
    for (std::size_t k = 0; k < seen; ++k) row[k] = Exponential(row[k] - greatest);
    const float inverse = 1.0F / Sum(seen, [row](std::size_t k) { return row[k]; });
    for (std::size_t k = 0; k < seen; ++k) row[k] *= inverse;
    std::fill(row + seen, row + shape.keys, 0.0F);
  }
}

// The weights with which values are added up: probabilities after dropout.
const float* Weights(std::span<const float> probabilities, const HeadDropout& dropout,
                     std::span<float> scratch) {
  if (dropout.mask.empty()) return probabilities.data();
  MaskedScale(probabilities, dropout.mask, dropout.scale, scratch);
  return scratch.data();
}

}  // namespace

void Attend(const HeadShape& shape, const HeadInput& input, const HeadDropout& dropout,
            const HeadOutput& output) {
  const std::size_t cells = shape.queries * shape.keys;
  PACELINE_CHECK(output.probabilities.size() == cells && output.scratch.size() >= cells, "sizes");
  if (cells == 0) return;
  Multiply({shape.queries, shape.keys, shape.width, Scale(shape)},
           {input.query.first, input.query.step}, {input.key.first, input.key.step, CblasTrans},
           {output.probabilities.data(), shape.keys});
  Softmax(shape, output.probabilities.data());
  const float* weights = Weights(output.probabilities, dropout, output.scratch.first(cells));
  Multiply({shape.queries, shape.width, shape.keys}, {weights, shape.keys},
           {input.value.first, input.value.step}, output.output);
}

void AttendBackward(const HeadShape& shape, const HeadInput& input, const HeadDropout& dropout,
                    const HeadGradient& gradient) {
  const std::size_t cells = shape.queries * shape.keys;
  PACELINE_CHECK(gradient.probabilities.size() == cells && gradient.scratch.size() >= 2 * cells,
                 "sizes");
  if (cells == 0) return;
  const std::span<float> scores = gradient.scratch.subspan(cells, cells);
  const Factor output_gradient{gradient.output_gradient.first, gradient.output_gradient.step};
  const float* weights = Weights(gradient.probabilities, dropout, gradient.scratch.first(cells));
  Multiply({shape.keys, shape.width, shape.queries}, {weights, shape.keys, CblasTrans},
           output_gradient, gradient.value);
  Multiply({shape.queries, shape.keys, shape.width}, output_gradient,
           {input.value.first, input.value.step, CblasTrans}, {scores.data(), shape.keys});
  if (!dropout.mask.empty()) MaskedScale(scores, dropout.mask, dropout.scale, scores);
  for (std::size_t q = 0; q < shape.queries; ++q) {
    const float* p = gradient.probabilities.data() + q * shape.keys;
    float* s = scores.data() + q * shape.keys;
    const float dot = Sum(shape.keys, [=](std::size_t k) { return p[k] * s[k]; });
    for (std::size_t k = 0; k < shape.keys; ++k) s[k] = p[k] * (s[k] - dot);
  }
  Multiply({shape.queries, shape.width, shape.keys, Scale(shape)}, {scores.data(), shape.keys},
           {input.key.first, input.key.step}, gradient.query);
  Multiply({shape.keys, shape.width, shape.queries, Scale(shape)},
           {scores.data(), shape.keys, CblasTrans}, {input.query.first, input.query.step},
           gradient.key);
}

}  // namespace paceline::kernel
