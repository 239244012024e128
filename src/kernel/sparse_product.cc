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

constexpr std::size_t kLineFloats = 16;  // of a line of the cache
constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

// Part of the result as `strip` holds it, to where it belongs.
void Unpack(const Area& area, const Rows<const float>& strip, const SparseResult& result,
            float* to) {
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

// How many values of k are worked on at a time: equal parts, rounded up to whole steps.
std::size_t BlockOf(std::size_t inner, std::size_t most, std::size_t step) {
  const std::size_t part = PartOf(inner, most / step * step);
  return (part + step - 1) / step * step;
}

// Whether vectors can be loaded from where the factor lies, each from one line, without rows that
// push each other out of the cache: they are an odd number of lines apart, so that they spread over
// all of its sets.
bool ReadableInPlace(const MatrixView& right, std::size_t columns) {
  return right.column_step == 1 && columns % kLineFloats == 0 &&
         right.row_step % (2 * kLineFloats) == kLineFloats &&
         reinterpret_cast<std::uintptr_t>(right.values.data()) % (kLineFloats * sizeof(float)) == 0;
}

}  // namespace

double NonzeroShare(std::span<const float> matrix, std::size_t columns) {
  constexpr std::size_t kMaxRows = 16;  // that are looked at
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
  constexpr std::size_t kPanelFloats = Lists::kPanelBytes / sizeof(float);
  const std::size_t width =
      kFloats * PartOf((shape.columns + kFloats - 1) / kFloats, Lists::kMaxVectors);
  Blocks blocks{
      .columns = width,
      .inner = BlockOf(shape.inner, std::min(internal::Nonzeros::kMaxBlock, kPanelFloats / width),
                       right.column_step == 1 ? 1 : Lists::kTransposedStep),
      .packed = !Lists::kMayReadInPlace || !ReadableInPlace(right, shape.columns),
      .first_column = 0};
  nonzeros_.Assign({shape.rows, shape.inner, blocks.inner, blocks.packed ? width : right.row_step},
                   left);
  for (; blocks.first_column < shape.columns; blocks.first_column += width) {
    MultiplyColumns<Lists>(shape, right, result, blocks);
  }
}

template <typename Lists>
void SparseProduct::MultiplyColumns(const ProductShape& shape, const MatrixView& right,
                                    const SparseResult& result, const Blocks& blocks) {
  constexpr std::size_t kFloats = Lists::kFloats;
  alignas(64) float packed[Lists::kPanelBytes / sizeof(float)];
  alignas(64) float start[Lists::kMaxVectors * kFloats] = {};
  const std::size_t first = blocks.first_column;
  const std::size_t columns = std::min(blocks.columns, shape.columns - first);
  if (!result.start.empty()) std::copy_n(result.start.data() + first, columns, start);
  const bool in_place = result.column_step == 1 && columns % kFloats == 0;
  float* const to = result.values.data() + first * result.column_step;
  // Sums that one block completes go to their place before they leave the first-level cache.
  const bool at_once = in_place || blocks.inner < shape.inner;
  const std::size_t rows = at_once ? shape.rows : std::min(shape.rows, kLineFloats);
  if (!in_place && strip_.size() < rows * blocks.columns) strip_.resize(rows * blocks.columns);
  internal::ListedTarget target{start, 0, in_place ? to : strip_.data(),
                                in_place ? result.row_step : blocks.columns, kNoFloor};
  for (std::size_t k = 0; k < shape.inner; k += blocks.inner) {
    const std::size_t inner = std::min(blocks.inner, shape.inner - k);
    const bool last = k + inner == shape.inner;
    if (last) target.floor = result.floor;
    const float* panel = right.values.data() + k * right.row_step + first * right.column_step;
    if (blocks.packed) {
      internal::PackPanel({panel, right.row_step, right.column_step, inner, columns},
                          blocks.columns, packed);
      panel = packed;
    }
    const internal::ListedRows listed = nonzeros_.OfBlock(k / blocks.inner);
    for (std::size_t r = 0; r < shape.rows; r += rows) {
      const std::size_t count = std::min(rows, shape.rows - r);
      Lists::Multiply((columns + kFloats - 1) / kFloats,
                      {listed.values, listed.offsets, listed.ends + r, count}, panel, target);
      if (last && !in_place) {
        Unpack({count, columns}, {strip_.data(), blocks.columns}, result, to + r * result.row_step);
      }
    }
    target.start = target.first;
    target.start_step = target.step;
  }
}

}  // namespace paceline::kernel
