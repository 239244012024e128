#include <cstring>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "kernel/internal/product_tile.h"

namespace paceline::kernel::internal {

namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);

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
    left += Layout == Left::kRows ? 1 : Avx2Tiles::kRows;
    right += Avx2Tiles::kColumns;
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = held[r][v];
  }
}

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

}  // namespace

template <Left Layout>
void Avx2Tiles::Multiply(std::size_t rows, const Tile& tile, const Target& target) {
  if (target.columns <= kFloats) return MultiplyRows<Layout, 1>(rows, tile, target);
  MultiplyRows<Layout, 2>(rows, tile, target);
}

template void Avx2Tiles::Multiply<Left::kRows>(std::size_t, const Tile&, const Target&);
template void Avx2Tiles::Multiply<Left::kPacked>(std::size_t, const Tile&, const Target&);

}  // namespace paceline::kernel::internal
