#include "kernel/matrix_product.h"

#include <algorithm>
#include <cstring>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace paceline::kernel {

namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);

// A tile of 6 x 16 sums takes 12 of the 16 vector registers of AVX2; two hold the right factor, one
// the left. Per k that is 12 multiply-adds to 8 loads: the arithmetic decides.
constexpr std::size_t kTileRows = 6;
constexpr std::size_t kTileColumns = 2 * kFloats;
// What is worked on at a time: so many values of k that a panel of the right factor stays in the
// first-level cache (32 KiB), and panels and rows so that the parts of both factors stay in the
// second-level cache (512 KiB). Of 96, 192 and all rows 96 were the fastest for CTR-DNN's layers.
constexpr std::size_t kMaxBlock = 416;
constexpr std::size_t kMaxPanels = 13;
constexpr std::size_t kMaxRows = 16 * kTileRows;
// A left factor that lies transposed is rearranged first. Of 128, 200 and 256 values of k and 204
// and 408 rows these were the fastest for the gradients of CTR-DNN's weights.
constexpr std::size_t kMaxPackedBlock = 256;
constexpr std::size_t kMaxPackedTiles = 68;
// Between two of its tiles lies a line of cache, or the tiles of a block of 256 would share 2 of 64
// sets of the first-level cache: about 15 % slower.
constexpr std::size_t kPackedGap = 16;

inline Vector Load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

// Rounded once. Asked for by name: whether a compiler fuses a product and a sum depends on what
// lies between them, such as the checks of a sanitizer.
inline Vector MultiplyAdd(float factor, Vector vector, Vector sum) {
#if defined(__FMA__)
  return _mm256_fmadd_ps(_mm256_set1_ps(factor), vector, sum);
#else
  return factor * vector + sum;
#endif
}

inline void Store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof(vector)); }

// How the left factor lies in memory: as rows, or as tiles of kTileRows floats for each k.
enum class Left { kRows, kPacked };

struct Tile {
  const float* left;   // its first row and k
  std::size_t step;    // of its rows; packed: of its tiles
  const float* right;  // panel: kTileColumns floats for each k
  std::size_t inner;
};

// The loops over registers must vanish before the compiler decides where the sums live.
template <Left Layout, std::size_t Rows, std::size_t Vectors>
inline void SumTile(const Tile& tile, Vector (&sums)[Rows][Vectors]) {
  Vector held[Rows][Vectors] = {};
  const float* left = tile.left;
  const float* right = tile.right;
#pragma GCC unroll 4
  for (std::size_t k = 0; k < tile.inner; ++k) {
    Vector factors[Vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < Vectors; ++v) factors[v] = Load(right + v * kFloats);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r) {
      const float factor = left[Layout == Left::kRows ? r * tile.step : r];
#pragma GCC unroll 8
      for (std::size_t v = 0; v < Vectors; ++v) {
        held[r][v] = MultiplyAdd(factor, factors[v], held[r][v]);
      }
    }
    left += Layout == Left::kRows ? 1 : kTileRows;
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
  Into into;
  float scale;
};

template <Left Layout, std::size_t Rows, std::size_t Vectors>
[[gnu::noinline]] void MultiplyTile(const Tile& tile, const Target& target) {
  // The result of a large product is in no near cache; it arrives while the sums grow.
  for (std::size_t r = 0; r < Rows; ++r) {
    __builtin_prefetch(target.first + r * target.step, 1);
    __builtin_prefetch(target.first + r * target.step + target.columns - 1, 1);
  }
  Vector sums[Rows][Vectors];
  SumTile<Layout>(tile, sums);
  const bool add = target.into == Into::kAdd;
  if (target.columns == Vectors * kFloats) {
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t v = 0; v < Vectors; ++v) {
        float* place = target.first + r * target.step + v * kFloats;
        const Vector sum = target.scale * sums[r][v];
        Store(place, add ? Load(place) + sum : sum);
      }
    }
    return;
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    float* place = target.first + r * target.step;
    for (std::size_t c = 0; c < target.columns; ++c) {
      const float sum = target.scale * sums[r][c / kFloats][c % kFloats];
      place[c] = add ? place[c] + sum : sum;
    }
  }
}

template <Left Layout, std::size_t Vectors>
void MultiplyRows(std::size_t rows, const Tile& tile, const Target& target) {
  switch (rows) {
    case 6: return MultiplyTile<Layout, 6, Vectors>(tile, target);
    case 5: return MultiplyTile<Layout, 5, Vectors>(tile, target);
    case 4: return MultiplyTile<Layout, 4, Vectors>(tile, target);
    case 3: return MultiplyTile<Layout, 3, Vectors>(tile, target);
    case 2: return MultiplyTile<Layout, 2, Vectors>(tile, target);
    default: return MultiplyTile<Layout, 1, Vectors>(tile, target);
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

// Tiles as Tile wants them, `tile_step` apart; what is missing of the last tile's rows stays
// undefined and unread. `left` points at the first of `rows` neighbours in memory, `step` further
// is the next k.
struct LeftPart {
  const float* left;
  std::size_t step, rows, inner;
};
void PackLeft(const LeftPart& part, std::size_t tile_step, float* packed) {
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
template <Left Layout>
void MultiplyPanel(std::size_t rows, Tile tile, Target target) {
  for (std::size_t r = 0; r < rows; r += kTileRows) {
    const std::size_t count = std::min(kTileRows, rows - r);
    if (target.columns <= kFloats) {
      MultiplyRows<Layout, 1>(count, tile, target);
    } else {
      MultiplyRows<Layout, 2>(count, tile, target);
    }
    tile.left += Layout == Left::kRows ? kTileRows * tile.step : tile.step;
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

// One block of k and some columns, which `panels` holds.
struct Block {
  const float* left;
  const float* panels;
  std::size_t inner, columns;
};

template <Left Layout>
void MultiplyBlock(std::size_t rows, const MatrixView& left, const Block& block,
                   const Target& whole) {
  constexpr std::size_t kMaxTile = kTileRows * kMaxPackedBlock + kPackedGap;
  alignas(64) float packed[Layout == Left::kPacked ? kMaxPackedTiles * kMaxTile : 1];
  constexpr std::size_t kAtOnce = Layout == Left::kPacked ? kMaxPackedTiles * kTileRows : kMaxRows;
  for (std::size_t r = 0; r < rows; r += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, rows - r);
    Tile tile{block.left + r * left.row_step, left.row_step, block.panels, block.inner};
    if (Layout == Left::kPacked) {
      const std::size_t tile_step = kTileRows * block.inner + kPackedGap;
      PackLeft({tile.left, left.column_step, count, block.inner}, tile_step, packed);
      tile.left = packed;
      tile.step = tile_step;
    }
    Target target = whole;
    target.first += r * whole.step;
    for (std::size_t c = 0; c < block.columns; c += kTileColumns) {
      target.columns = std::min(kTileColumns, block.columns - c);
      MultiplyPanel<Layout>(count, tile, target);
      tile.right += block.inner * kTileColumns;
      target.first += kTileColumns;
    }
  }
}

template <Left Layout>
void MultiplyAll(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
                 Target whole) {
  alignas(64) float panels[kMaxPanels * kTileColumns * kMaxBlock];
  const std::size_t most = Layout == Left::kPacked ? kMaxPackedBlock : kMaxBlock;
  const std::size_t length = PartOf(shape.inner, most);
  for (std::size_t k = 0; k < shape.inner; k += length) {
    Block block{left.values.data() + k * left.column_step, panels,
                std::min(length, shape.inner - k), 0};
    for (std::size_t c = 0; c < shape.columns; c += block.columns) {
      block.columns = std::min(kMaxPanels * kTileColumns, shape.columns - c);
      for (std::size_t p = 0; p < block.columns; p += kTileColumns) {
        PackPanel(right, block.inner, std::min(kTileColumns, block.columns - p),
                  right.values.data() + k * right.row_step + (c + p) * right.column_step,
                  panels + p * block.inner);
      }
      Target target = whole;
      target.first += c;
      MultiplyBlock<Layout>(shape.rows, left, block, target);
    }
    whole.into = Into::kAdd;
  }
}

}  // namespace

void Multiply(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
              const ProductResult& result) {
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
  if (left.column_step == 1) {
    MultiplyAll<Left::kRows>(shape, left, right, target);
  } else {
    MultiplyAll<Left::kPacked>(shape, left, right, target);
  }
}

}  // namespace paceline::kernel
