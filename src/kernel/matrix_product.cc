#include "kernel/matrix_product.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/cpu.h"
#include "kernel/internal/product_tile.h"

namespace paceline::kernel {

namespace {

using internal::Left;
using internal::Target;
using internal::Tile;

using Vector = float __attribute__((vector_size(32)));
constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);

// What is worked on at a time: so many values of k that a panel of the right factor stays in the
// first-level cache (of AVX2: 32 KiB), and so many rows that the parts of both factors stay in the
// second-level cache. Of 96, 192 and all rows 96 were the fastest for CTR-DNN's layers. How many
// values of k there are, here and below, decides about bits.
constexpr std::size_t kMaxBlock = 416;
constexpr std::size_t kMaxRows = 96;
// A left factor that lies transposed is rearranged first. Of 128, 200 and 256 values of k and 204
// and 408 rows these were the fastest for the gradients of CTR-DNN's weights.
constexpr std::size_t kMaxPackedBlock = 256;
constexpr std::size_t kMaxPackedRows = 408;
// Between two of its tiles lies a line of cache, or the tiles of a block of 256 would share 2 of 64
// sets of the first-level cache: about 15 % slower.
constexpr std::size_t kPackedGap = 16;

inline Vector Load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

inline void Store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof(vector)); }

// to[k * to_step + c] = from[c * step + k] for an 8 x 8 square.
void TransposeSquare(const float* from, std::size_t step, float* to, std::size_t to_step) {
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
    Store(to + r * to_step, __builtin_shufflevector(row[r], row[r + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    Store(to + (r + 4) * to_step,
          __builtin_shufflevector(row[r], row[r + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

// `columns` columns of the right factor, the first of which begins at `from`, row after row, filled
// up with zeros to the width of a panel.
template <typename Tiles>
void PackPanel(const MatrixView& right, std::size_t inner, std::size_t columns, const float* from,
               float* panel) {
  constexpr std::size_t kTileColumns = Tiles::kColumns;
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
                      panel + k * kTileColumns + c, kTileColumns);
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t k = c < whole_columns ? whole_inner : 0; k < inner; ++k) {
      panel[k * kTileColumns + c] = from[c * right.column_step + k];
    }
  }
}

// Tiles as Tile wants them, `tile_step` apart; what is missing of the last tile's rows stays
// undefined and unread. `left` points at the first of `rows` neighbours in memory, `step` further
// is the next k.
struct LeftPart {
  const float* left;
  std::size_t step, rows, inner;
};
template <typename Tiles>
void PackLeft(const LeftPart& part, std::size_t tile_step, float* packed) {
  constexpr std::size_t kTileRows = Tiles::kRows;
  for (std::size_t k = 0; k < part.inner; ++k) {
    const float* from = part.left + k * part.step;
    float* to = packed + k * kTileRows;
    for (std::size_t r = 0; r < part.rows; r += kTileRows, to += tile_step) {
      if (r + kTileRows <= part.rows) {
        std::memcpy(to, from + r, kTileRows * sizeof(float));
      } else {
        std::copy_n(from + r, part.rows - r, to);
      }
    }
  }
}

// So many rows of the left factor with one panel.
template <typename Tiles, Left Layout>
void MultiplyPanel(std::size_t rows, Tile tile, Target target) {
  for (std::size_t r = 0; r < rows; r += Tiles::kRows) {
    Tiles::template Multiply<Layout>(std::min(Tiles::kRows, rows - r), tile, target);
    tile.left += Layout == Left::kRows ? Tiles::kRows * tile.step : tile.step;
    target.first += Tiles::kRows * target.step;
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

// One block of k and some columns, which `panels` holds.
struct Block {
  const float* left;
  const float* panels;
  std::size_t inner, columns;
};

template <typename Tiles, Left Layout>
void MultiplyBlock(std::size_t rows, const MatrixView& left, const Block& block,
                   const Target& whole) {
  static_assert(kMaxPackedRows % Tiles::kRows == 0 && kMaxRows % Tiles::kRows == 0);
  constexpr std::size_t kMaxTile = Tiles::kRows * kMaxPackedBlock + kPackedGap;
  constexpr std::size_t kPacked = kMaxPackedRows / Tiles::kRows * kMaxTile;
  alignas(64) float packed[Layout == Left::kPacked ? kPacked : 1];
  constexpr std::size_t kAtOnce = Layout == Left::kPacked ? kMaxPackedRows : kMaxRows;
  for (std::size_t r = 0; r < rows; r += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, rows - r);
    Tile tile{block.left + r * left.row_step, left.row_step, block.panels, block.inner};
    if (Layout == Left::kPacked) {
      const std::size_t tile_step = Tiles::kRows * block.inner + kPackedGap;
      PackLeft<Tiles>({tile.left, left.column_step, count, block.inner}, tile_step, packed);
      tile.left = packed;
      tile.step = tile_step;
    }
    Target target = whole;
    target.first += r * whole.step;
    for (std::size_t c = 0; c < block.columns; c += Tiles::kColumns) {
      target.columns = std::min(Tiles::kColumns, block.columns - c);
      MultiplyPanel<Tiles, Layout>(count, tile, target);
      tile.right += block.inner * Tiles::kColumns;
      target.first += Tiles::kColumns;
    }
  }
}

template <typename Tiles, Left Layout>
void MultiplyAll(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
                 Target whole) {
  constexpr std::size_t kMost = Layout == Left::kPacked ? kMaxPackedBlock : kMaxBlock;
  alignas(64) float panels[Tiles::kMaxColumns * kMost];
  const std::size_t length = PartOf(shape.inner, kMost);
  for (std::size_t k = 0; k < shape.inner; k += length) {
    Block block{left.values.data() + k * left.column_step, panels,
                std::min(length, shape.inner - k), 0};
    for (std::size_t c = 0; c < shape.columns; c += block.columns) {
      block.columns = std::min(Tiles::kMaxColumns, shape.columns - c);
      for (std::size_t p = 0; p < block.columns; p += Tiles::kColumns) {
        PackPanel<Tiles>(right, block.inner, std::min(Tiles::kColumns, block.columns - p),
                         right.values.data() + k * right.row_step + (c + p) * right.column_step,
                         panels + p * block.inner);
      }
      Target target = whole;
      target.first += c;
      MultiplyBlock<Tiles, Layout>(shape.rows, left, block, target);
    }
    whole.into = Into::kAdd;
  }
}

template <typename Tiles>
void MultiplyEither(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
                    const Target& whole) {
  if (left.column_step == 1) {
    MultiplyAll<Tiles, Left::kRows>(shape, left, right, whole);
  } else {
    MultiplyAll<Tiles, Left::kPacked>(shape, left, right, whole);
  }
}

}  // namespace

bool internal::Supported(Tiles tiles) { return tiles == Tiles::kAvx2 || HasAvx512(); }

void Multiply(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
              const ProductResult& result) {
  using internal::Tiles;
  const Tiles tiles = Supported(Tiles::kAvx512) ? Tiles::kAvx512 : Tiles::kAvx2;
  internal::MultiplyWith(tiles, shape, left, right, result);
}

void internal::MultiplyWith(Tiles tiles, const ProductShape& shape, const MatrixView& left,
                            const MatrixView& right, const ProductResult& result) {
  const auto [rows, columns, inner] = shape;
  if (rows == 0 || columns == 0) return;
  PACELINE_CHECK(
      result.row_step >= columns && result.values.size() >= (rows - 1) * result.row_step + columns,
      "result");
  if (inner == 0) {
    for (std::size_t r = 0; r < rows && result.into == Into::kOverwrite; ++r) {
      std::ranges::fill(result.values.subspan(r * result.row_step, columns), 0.0F);
    }
    return;
  }
  PACELINE_CHECK(left.values.size() >= Extent(left, rows, inner) &&
                     right.values.size() >= Extent(right, inner, columns),
                 "factors");
  PACELINE_CHECK((left.row_step == 1 || left.column_step == 1) &&
                     (right.row_step == 1 || right.column_step == 1),
                 "factors are contiguous one way or the other");
  const Target target{result.values.data(), result.row_step, 0, result.into, result.scale};
  if (tiles == Tiles::kAvx512) {
    MultiplyEither<Avx512Tiles>(shape, left, right, target);
  } else {
    MultiplyEither<Avx2Tiles>(shape, left, right, target);
  }
}

}  // namespace paceline::kernel
