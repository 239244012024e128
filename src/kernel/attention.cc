#include "kernel/attention.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernel/dropout.h"
#include "kernel/exponential.h"
#include "kernel/matrix_product.h"

namespace paceline::kernel {

namespace {

// Matrices of `count` rows, each of `width` floats.
struct Size {
  std::size_t count, width;
  std::size_t Floats(std::size_t step) const { return (count - 1) * step + width; }
};
MatrixView View(const HeadRows& rows, const Size& size) {
  return {{rows.first, size.Floats(rows.step)}, rows.step, 1};
}
MatrixView Transposed(const HeadRows& rows, const Size& size) {
  return {{rows.first, size.Floats(rows.step)}, 1, rows.step};
}
ProductResult Result(const HeadGradientRows& rows, const Size& size, float scale = 1) {
  return {{rows.first, size.Floats(rows.step)}, rows.step, Into::kOverwrite, scale};
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
  const Size keys{shape.keys, shape.width}, square{shape.queries, shape.keys};
  const Size queries{shape.queries, shape.width};
  Multiply({shape.queries, shape.keys, shape.width}, View(input.query, queries),
           Transposed(input.key, keys),
           {output.probabilities, shape.keys, Into::kOverwrite, Scale(shape)});
  Softmax(shape, output.probabilities.data());
  const float* weights = Weights(output.probabilities, dropout, output.scratch.first(cells));
  Multiply({shape.queries, shape.width, shape.keys}, View({weights, shape.keys}, square),
           View(input.value, keys), Result(output.output, queries));
}

void AttendBackward(const HeadShape& shape, const HeadInput& input, const HeadDropout& dropout,
                    const HeadGradient& gradient) {
  const std::size_t cells = shape.queries * shape.keys;
  PACELINE_CHECK(gradient.probabilities.size() == cells && gradient.scratch.size() >= 2 * cells,
                 "sizes");
  if (cells == 0) return;
  const Size keys{shape.keys, shape.width}, square{shape.queries, shape.keys};
  const Size queries{shape.queries, shape.width};
  const std::span<float> scores = gradient.scratch.subspan(cells, cells);
  const float* weights = Weights(gradient.probabilities, dropout, gradient.scratch.first(cells));
  const MatrixView output_gradient = View(gradient.output_gradient, queries);
  Multiply({shape.keys, shape.width, shape.queries}, Transposed({weights, shape.keys}, square),
           output_gradient, Result(gradient.value, keys));
  Multiply({shape.queries, shape.keys, shape.width}, output_gradient, Transposed(input.value, keys),
           {scores, shape.keys});
  if (!dropout.mask.empty()) MaskedScale(scores, dropout.mask, dropout.scale, scores);
  for (std::size_t q = 0; q < shape.queries; ++q) {
    const float* p = gradient.probabilities.data() + q * shape.keys;
    float* s = scores.data() + q * shape.keys;
    const float dot = Sum(shape.keys, [=](std::size_t k) { return p[k] * s[k]; });
    for (std::size_t k = 0; k < shape.keys; ++k) s[k] = p[k] * (s[k] - dot);
  }
  const HeadRows score_rows{scores.data(), shape.keys};
  Multiply({shape.queries, shape.width, shape.keys}, View(score_rows, square),
           View(input.key, keys), Result(gradient.query, queries, Scale(shape)));
  Multiply({shape.keys, shape.width, shape.queries}, Transposed(score_rows, square),
           View(input.query, queries), Result(gradient.key, keys, Scale(shape)));
}

}  // namespace paceline::kernel
