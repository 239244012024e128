#include "kernel/sparse_product.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "kernel/internal/listed_rows.h"
#include "kernel/internal/pack.h"

namespace paceline::kernel {

namespace {

using internal::Area;
using internal::PartOf;
using internal::Rows;

constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

// Some columns of the result as `strip` holds them, to where they belong.
void Unpack(const Area& area, const Rows<const float>& strip, const SparseResult& result,
            std::size_t first_column) {
  float* to = result.values.data() + first_column * result.column_step;
  if (result.column_step != 1) {
    internal::Transpose(area, strip, {to, result.column_step});
    return;
  }
  for (std::size_t r = 0; r < area.rows; ++r) {
    std::copy_n(strip.first + r * strip.step, area.columns, to + r * result.row_step);
  }
}

std::size_t Extent(std::size_t rows, std::size_t row_step, std::size_t columns,
                   std::size_t column_step) {
  return (rows - 1) * row_step + (columns - 1) * column_step + 1;
}

void CheckSpans(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
                const SparseResult& result) {
  const auto [rows, columns, inner] = shape;
  PACELINE_CHECK(
      result.values.size() >= Extent(rows, result.row_step, columns, result.column_step) &&
          (result.start.empty() || result.start.size() == columns),
      "result");
  PACELINE_CHECK(
      left.values.size() >= Extent(rows, left.row_step, inner, left.column_step) &&
          right.values.size() >= Extent(inner, right.row_step, columns, right.column_step),
      "factors");
  PACELINE_CHECK((left.row_step == 1 || left.column_step == 1) &&
                     (right.row_step == 1 || right.column_step == 1) &&
                     (result.row_step == 1 || result.column_step == 1),
                 "matrices are contiguous one way or the other");
}

}  // namespace

double NonzeroShare(std::span<const float> matrix, std::size_t columns) {
  constexpr std::size_t kMaxRows = 64;  // that are looked at
  if (matrix.empty()) return 0;
  const std::size_t rows = matrix.size() / columns;
  const std::size_t every = (rows + kMaxRows - 1) / kMaxRows;
  std::size_t nonzeros = 0, seen = 0;
  for (std::size_t r = 0; r < rows; r += every, seen += columns) {
    const float* row = matrix.data() + r * columns;
    std::uint32_t of_row = 0;  // as wide as a float: vectors of both have as many lanes
    for (std::size_t c = 0; c < columns; ++c) of_row += row[c] != 0.0F ? 1 : 0;
    nonzeros += of_row;
  }
  return static_cast<double>(nonzeros) / static_cast<double>(seen);
}

bool SparseProduct::Pays(const ProductShape& shape, double left_share) {
  // On an AMD EPYC products of CTR-DNN's layers were 0.95 to 1.26 times as fast as dense ones at
  // 0.6.
  constexpr double kMaxShare = 0.6;
  constexpr std::size_t kMinColumns = 64;  // fewer sums at a time would wait for each other
  constexpr std::size_t kMinRows = 16;     // for fewer it is not worth rearranging the right factor
  return left_share <= kMaxShare && shape.columns >= kMinColumns && shape.rows >= kMinRows &&
         shape.inner > 0;
}

void SparseProduct::Multiply(const ProductShape& shape, const MatrixView& left,
                             const MatrixView& right, const SparseResult& result) {
  PACELINE_CHECK(shape.inner > 0, "something to add up");
  if (shape.rows == 0 || shape.columns == 0) return;
  CheckSpans(shape, left, right, result);
  if (tiles_ == internal::Tiles::kAvx512) {
    MultiplyWith<internal::Avx512Lists>(shape, left, right, result);
  } else {
    MultiplyWith<internal::Avx2Lists>(shape, left, right, result);
  }
}

template <typename Lists>
void SparseProduct::MultiplyWith(const ProductShape& shape, const MatrixView& left,
                                 const MatrixView& right, const SparseResult& result) {
  constexpr std::size_t kFloats = Lists::kFloats;
  const std::size_t width =
      kFloats * PartOf((shape.columns + kFloats - 1) / kFloats, Lists::kMaxVectors);
  const std::size_t block =
      PartOf(shape.inner,
             std::min(internal::Nonzeros::kMaxBlock, Lists::kPanelBytes / sizeof(float) / width));
  nonzeros_.Assign({shape.rows, shape.inner, block, width}, left);
  alignas(64) float panel[Lists::kPanelBytes / sizeof(float)];
  alignas(64) float start[Lists::kMaxVectors * kFloats];
  for (std::size_t c = 0; c < shape.columns; c += width) {
    const std::size_t columns = std::min(width, shape.columns - c);
    const bool in_place = result.column_step == 1 && columns % kFloats == 0;
    if (!in_place && strip_.size() < shape.rows * width) strip_.resize(shape.rows * width);
    std::ranges::fill(start, 0.0F);
    if (!result.start.empty()) std::copy_n(result.start.data() + c, columns, start);
    internal::ListedTarget target{start, 0, strip_.data(), width, kNoFloor};
    if (in_place) {
      target.first = result.values.data() + c;
      target.step = result.row_step;
    }
    for (std::size_t k = 0; k < shape.inner; k += block) {
      const std::size_t inner = std::min(block, shape.inner - k);
      if (k + inner == shape.inner) target.floor = result.floor;
      internal::PackPanel({right.values.data() + k * right.row_step + c * right.column_step,
                           right.row_step, right.column_step, inner, columns},
                          width, panel);
      Lists::Multiply((columns + kFloats - 1) / kFloats, nonzeros_.OfBlock(k / block), panel,
                      target);
      target.start = target.first;
      target.start_step = target.step;
    }
    if (!in_place) Unpack({shape.rows, columns}, {strip_.data(), width}, result, c);
  }
}

}  // namespace paceline::kernel
