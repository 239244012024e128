#include "kernel/matrix_product.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace paceline::kernel {

namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);

// A tile of 6 x 16 sums takes 12 of the 16 vector registers of AVX2; two hold the right factor, one
// the left. Per k that is 12 multiply-adds to 8 loads: the arithmetic decides.
constexpr std::size_t kTileRows = 6;
constexpr std::size_t kTileColumns = 2 * kFloats;
// A panel of the right factor, so many rows of 64 bytes, stays in the first-level cache (32 KiB).
constexpr std::size_t kMaxBlock = 416;
// A left factor that lies transposed is read in pieces of 24 bytes, one row of memory for each k:
// these rows should stay in the second-level cache and their pages in the first-level TLB.
constexpr std::size_t kMaxTransposedBlock = 128;

inline Vector Load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

inline void Store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof(vector)); }

// How the left factor lies in memory.
enum class Left { kRows, kTransposed };

struct Tile {
  const float* left;   // its first row and k
  std::size_t step;    // of its rows, or of k when it lies transposed
  const float* right;  // panel: kTileColumns floats for each k
  std::size_t inner;
};

// The loops over registers must vanish before the compiler decides where the sums live; the loop
// over k must stay, or it spills them.
template <Left kLeft, std::size_t Rows, std::size_t Vectors>
inline void SumTile(const Tile& tile, Vector (&sums)[Rows][Vectors]) {
  Vector held[Rows][Vectors] = {};
  const float* left = tile.left;
  const float* right = tile.right;
#pragma GCC unroll 1
  for (std::size_t k = 0; k < tile.inner; ++k) {
    Vector factors[Vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < Vectors; ++v) factors[v] = Load(right + v * kFloats);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r) {
      const float factor = left[kLeft == Left::kRows ? r * tile.step : r];
#pragma GCC unroll 8
      for (std::size_t v = 0; v < Vectors; ++v) held[r][v] += factor * factors[v];
    }
    left += kLeft == Left::kRows ? 1 : tile.step;
    right += kTileColumns;
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = held[r][v];
  }
}

// Where a tile of the result lies; `columns` of it are wanted.
struct Target {
  float* first;
  std::size_t step;
  std::size_t columns;
};

template <Left kLeft, std::size_t Rows, std::size_t Vectors>
[[gnu::noinline]] void MultiplyTile(const Tile& tile, Into into, const Target& target) {
  Vector sums[Rows][Vectors];
  SumTile<kLeft>(tile, sums);
  if (target.columns == Vectors * kFloats) {
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t v = 0; v < Vectors; ++v) {
        float* place = target.first + r * target.step + v * kFloats;
        Store(place, into == Into::kAdd ? Load(place) + sums[r][v] : sums[r][v]);
      }
    }
    return;
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    float* place = target.first + r * target.step;
    for (std::size_t c = 0; c < target.columns; ++c) {
      const float sum = sums[r][c / kFloats][c % kFloats];
      place[c] = into == Into::kAdd ? place[c] + sum : sum;
    }
  }
}

template <Left kLeft, std::size_t Vectors>
void MultiplyRows(std::size_t rows, const Tile& tile, Into into, const Target& target) {
  switch (rows) {
    case 6: return MultiplyTile<kLeft, 6, Vectors>(tile, into, target);
    case 5: return MultiplyTile<kLeft, 5, Vectors>(tile, into, target);
    case 4: return MultiplyTile<kLeft, 4, Vectors>(tile, into, target);
    case 3: return MultiplyTile<kLeft, 3, Vectors>(tile, into, target);
    case 2: return MultiplyTile<kLeft, 2, Vectors>(tile, into, target);
    default: return MultiplyTile<kLeft, 1, Vectors>(tile, into, target);
  }
}

// to[k * kTileColumns + c] = from[c * step + k] for an 8 x 8 square.
void TransposeSquare(const float* from, std::size_t step, float* to) {
  using Pair = double __attribute__((vector_size(32)));
  Vector row[kFloats], mixed[kFloats];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kFloats; ++r) row[r] = Load(from + r * step);
    // Neighbouring rows, then pairs of these, then halves change places.
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kFloats; r += 2) {
    mixed[r] = __builtin_shufflevector(row[r], row[r + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    mixed[r + 1] = __builtin_shufflevector(row[r], row[r + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kFloats; r += 4) {
#pragma GCC unroll 8
    for (std::size_t half = 0; half < 2; ++half) {
      const Pair low = reinterpret_cast<Pair>(mixed[r + half]);
      const Pair high = reinterpret_cast<Pair>(mixed[r + half + 2]);
      row[r + 2 * half] = reinterpret_cast<Vector>(__builtin_shufflevector(low, high, 0, 4, 2, 6));
      row[r + 2 * half + 1] =
          reinterpret_cast<Vector>(__builtin_shufflevector(low, high, 1, 5, 3, 7));
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kFloats / 2; ++r) {
    Store(to + r * kTileColumns,
          __builtin_shufflevector(row[r], row[r + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    Store(to + (r + 4) * kTileColumns,
          __builtin_shufflevector(row[r], row[r + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

// `columns` columns of the right factor, the first of which begins at `from`, row after row, filled
// up with zeros to the width of a panel.
void PackPanel(const MatrixView& right, std::size_t inner, std::size_t columns, const float* from,
               float* panel) {
  if (columns < kTileColumns) std::fill_n(panel, inner * kTileColumns, 0.0F);
  if (right.column_step == 1) {
    for (std::size_t k = 0; k < inner; ++k) {
      if (columns == kTileColumns) {
        std::memcpy(panel + k * kTileColumns, from + k * right.row_step,
                    kTileColumns * sizeof(float));
      } else {
        std::copy_n(from + k * right.row_step, columns, panel + k * kTileColumns);
      }
    }
    return;
  }
  const std::size_t whole_columns = columns / kFloats * kFloats,
                    whole_inner = inner / kFloats * kFloats;
  for (std::size_t c = 0; c < whole_columns; c += kFloats) {
    for (std::size_t k = 0; k < whole_inner; k += kFloats) {
      TransposeSquare(from + c * right.column_step + k, right.column_step,
                      panel + k * kTileColumns + c);
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t k = c < whole_columns ? whole_inner : 0; k < inner; ++k) {
      panel[k * kTileColumns + c] = from[c * right.column_step + k];
    }
  }
}

// All rows of the left factor with one panel.
template <Left kLeft>
void MultiplyPanel(std::size_t rows, Tile tile, Into into, Target target) {
  for (std::size_t r = 0; r < rows; r += kTileRows) {
    const std::size_t count = std::min(kTileRows, rows - r);
    if (target.columns <= kFloats) {
      MultiplyRows<kLeft, 1>(count, tile, into, target);
    } else {
      MultiplyRows<kLeft, 2>(count, tile, into, target);
    }
    tile.left += kTileRows * (kLeft == Left::kRows ? tile.step : 1);
    target.first += kTileRows * target.step;
  }
}

std::size_t Extent(const MatrixView& view, std::size_t rows, std::size_t columns) {
  return (rows - 1) * view.row_step + (columns - 1) * view.column_step + 1;
}

// Cut into equal parts of at most `most`.
std::size_t PartOf(std::size_t whole, std::size_t most) {
  const std::size_t parts = (whole + most - 1) / most;
  return (whole + parts - 1) / parts;
}

}  // namespace

void Multiply(const ProductShape& shape, const MatrixView& left, const MatrixView& right, Into into,
              std::span<float> result) {
  PACELINE_CHECK(result.size() == shape.rows * shape.columns, "result");
  if (result.empty()) return;
  if (shape.inner == 0) {
    if (into == Into::kOverwrite) std::ranges::fill(result, 0.0F);
    return;
  }
  PACELINE_CHECK(left.values.size() >= Extent(left, shape.rows, shape.inner) &&
                     right.values.size() >= Extent(right, shape.inner, shape.columns),
                 "factors");
  PACELINE_CHECK((left.row_step == 1 || left.column_step == 1) &&
                     (right.row_step == 1 || right.column_step == 1),
                 "factors are contiguous one way or the other");
  const bool transposed = left.column_step != 1;
  const std::size_t block = PartOf(shape.inner, transposed ? kMaxTransposedBlock : kMaxBlock);
  alignas(64) float panel[kMaxBlock * kTileColumns];
  for (std::size_t k = 0; k < shape.inner; k += block) {
    const std::size_t inner = std::min(block, shape.inner - k);
    const Tile tile{left.values.data() + k * left.column_step,
                    transposed ? left.column_step : left.row_step, panel, inner};
    const Into now = k == 0 ? into : Into::kAdd;
    for (std::size_t c = 0; c < shape.columns; c += kTileColumns) {
      const Target target{result.data() + c, shape.columns,
                          std::min(kTileColumns, shape.columns - c)};
      PackPanel(right, inner, target.columns,
                right.values.data() + k * right.row_step + c * right.column_step, panel);
      if (transposed) {
        MultiplyPanel<Left::kTransposed>(shape.rows, tile, now, target);
      } else {
        MultiplyPanel<Left::kRows>(shape.rows, tile, now, target);
      }
    }
  }
}

}  // namespace paceline::kernel
