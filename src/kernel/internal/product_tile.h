#pragma once

#include <cstddef>

#include "kernel/matrix_product.h"

// The innermost loops of a product, once for each kind of vectors. Each sum of a tile is a chain of
// fused multiply-adds in order of k, whatever the vectors' length: all give the same bits.
namespace paceline::kernel::internal {

// How the left factor lies in memory: as rows, or as tiles of so many floats for each k as the tile
// has rows.
enum class Left { kRows, kPacked };

struct Tile {
  const float* left;   // its first row and k
  std::size_t step;    // of its rows; packed: of its tiles
  const float* right;  // panel: as many floats for each k as the tile has columns
  std::size_t inner;
};

// Where a tile of the result lies; `columns` of it are wanted.
struct Target {
  float* first;
  std::size_t step;
  std::size_t columns;
  Into into;
  float scale;
};

// A tile of 6 x 16 sums takes 12 of the 16 vector registers of AVX2; two hold the right factor, one
// the left. Per k that is 12 multiply-adds to 8 loads: the arithmetic decides.
struct Avx2Tiles {
  static constexpr std::size_t kRows = 6;
  static constexpr std::size_t kColumns = 16;
  // Of the right factor that are worked on at a time, so that they stay in the second-level cache
  // (512 KiB).
  static constexpr std::size_t kMaxColumns = 13 * kColumns;
  // The first `rows` rows of a tile; they are at least 1.
  template <Left Layout>
  static void Multiply(std::size_t rows, const Tile& tile, const Target& target);
};

// A tile of 12 x 32 sums takes 24 of the 32 registers of AVX-512. Per k that is 24 multiply-adds to
// 14 loads.
struct Avx512Tiles {
  static constexpr std::size_t kRows = 12;
  static constexpr std::size_t kColumns = 32;
  static constexpr std::size_t kMaxColumns = 13 * kColumns;  // such CPUs have caches of 1 MiB
  template <Left Layout>
  static void Multiply(std::size_t rows, const Tile& tile, const Target& target);
};

// Which tiles this CPU can run, best first.
enum class Tiles { kAvx512, kAvx2 };
bool Supported(Tiles tiles);
Tiles BestTiles();

// Multiply() with the tiles of one's choice.
void MultiplyWith(Tiles tiles, const ProductShape& shape, const MatrixView& left,
                  const MatrixView& right, const ProductResult& result);

}  // namespace paceline::kernel::internal
