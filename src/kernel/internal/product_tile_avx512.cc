#include "base/check.h"
#include "kernel/internal/product_tile.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

// Of these functions alone: whatever else the compiler makes of this file runs on every CPU.
#define PACELINE_AVX512 gnu::target("avx512f")

namespace paceline::kernel::internal {

namespace {

constexpr std::size_t kFloats = 16;

template <Left Layout, std::size_t Rows, std::size_t Vectors>
[[PACELINE_AVX512, gnu::always_inline]] inline void SumTile(const Tile& tile,
                                                            __m512 (&sums)[Rows][Vectors]) {
  // Rows by threes: so each is reached from one of four pointers with the steps that an address can
  // have, and all pointers stay in registers.
  constexpr std::size_t kTogether = 3;
  const std::size_t row_step = Layout == Left::kRows ? tile.step : 1;
  const float* left[] = {tile.left, tile.left + kTogether * row_step,
                         tile.left + 2 * kTogether * row_step,
                         tile.left + 3 * kTogether * row_step};
  const float* right = tile.right;
  __m512 held[Rows][Vectors] = {};
#pragma GCC unroll 2
  for (std::size_t k = 0; k < tile.inner; ++k) {
    __m512 factors[Vectors];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < Vectors; ++v) factors[v] = _mm512_loadu_ps(right + v * kFloats);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m512 factor = _mm512_set1_ps(left[r / kTogether][r % kTogether * row_step]);
#pragma GCC unroll 2
      for (std::size_t v = 0; v < Vectors; ++v) {
        held[r][v] = _mm512_fmadd_ps(factor, factors[v], held[r][v]);
      }
    }
#pragma GCC unroll 4
    for (const float*& pointer : left) pointer += Layout == Left::kRows ? 1 : Avx512Tiles::kRows;
    right += Avx512Tiles::kColumns;
  }
#pragma GCC unroll 12
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = held[r][v];
  }
}

template <Left Layout, std::size_t Rows, std::size_t Vectors>
[[PACELINE_AVX512, gnu::noinline]] void MultiplyTile(const Tile& tile, const Target& target) {
  // The result of a large product is in no near cache; it arrives while the sums grow.
  for (std::size_t r = 0; r < Rows; ++r) {
    __builtin_prefetch(target.first + r * target.step, 1);
    __builtin_prefetch(target.first + r * target.step + target.columns - 1, 1);
  }
  __m512 sums[Rows][Vectors];
  SumTile<Layout>(tile, sums);
  const __m512 scale = _mm512_set1_ps(target.scale);
#pragma GCC unroll 2
  for (std::size_t v = 0; v < Vectors; ++v) {
    const std::size_t wanted = std::min(kFloats, target.columns - v * kFloats);
    const auto mask = static_cast<__mmask16>((1U << wanted) - 1);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < Rows; ++r) {
      float* place = target.first + r * target.step + v * kFloats;
      __m512 sum = _mm512_mul_ps(scale, sums[r][v]);
      if (target.into == Into::kAdd) {
        sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, place), sum);
      }
      _mm512_mask_storeu_ps(place, mask, sum);
    }
  }
}

using TileFunction = void (*)(const Tile&, const Target&);
template <Left Layout, std::size_t Vectors, std::size_t... Index>
constexpr std::array<TileFunction, sizeof...(Index)> ByRows(std::index_sequence<Index...>) {
  return {MultiplyTile<Layout, Index + 1, Vectors>...};
}

}  // namespace

template <Left Layout>
void Avx512Tiles::Multiply(std::size_t rows, const Tile& tile, const Target& target) {
  static constexpr auto kNarrow = ByRows<Layout, 1>(std::make_index_sequence<kRows>());
  static constexpr auto kWide = ByRows<Layout, 2>(std::make_index_sequence<kRows>());
  (target.columns <= kFloats ? kNarrow : kWide)[rows - 1](tile, target);
}

}  // namespace paceline::kernel::internal
#else
namespace paceline::kernel::internal {

template <Left Layout>
void Avx512Tiles::Multiply(std::size_t, const Tile&, const Target&) {
  PACELINE_CHECK(false, "tiles that this CPU supports");
}

}  // namespace paceline::kernel::internal
#endif

namespace paceline::kernel::internal {

template void Avx512Tiles::Multiply<Left::kRows>(std::size_t, const Tile&, const Target&);
template void Avx512Tiles::Multiply<Left::kPacked>(std::size_t, const Tile&, const Target&);

}  // namespace paceline::kernel::internal
