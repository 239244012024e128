#include "kernel/matrix_product.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/cpu.h"
#include "kernel/internal/pack.h"
#include "kernel/internal/product_tile.h"

namespace paceline::kernel {

namespace {

using internal::Left;
using internal::PartOf;
using internal::Target;
using internal::Tile;

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
        const float* first = right.values.data() + k * right.row_step + (c + p) * right.column_step;
        internal::PackPanel({first, right.row_step, right.column_step, block.inner,
                             std::min(Tiles::kColumns, block.columns - p)},
                            std::integral_constant<std::size_t, Tiles::kColumns>(),
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

internal::Tiles internal::BestTiles() {
  return Supported(Tiles::kAvx512) ? Tiles::kAvx512 : Tiles::kAvx2;
}

void Multiply(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
              const ProductResult& result) {
  internal::MultiplyWith(internal::BestTiles(), shape, left, right, result);
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
