#include "base/check.h"
#include "kernel/internal/listed_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#include <utility>

// Of these functions alone: whatever else the compiler makes of this file runs on every CPU.
#define PACELINE_AVX512 gnu::target("avx512f")

namespace paceline::kernel::internal {

namespace {

constexpr std::size_t kFloats = Avx512Lists::kFloats;
// GCC 12 takes _mm512_max_ps() for a use of an uninitialised variable.
constexpr __mmask16 kAllLanes = 0xFFFF;

// As in listed_rows_avx2.cc.
template <std::size_t Vectors>
[[PACELINE_AVX512]] void MultiplyRows(const ListedRows& listed, const float* panel,
                                      const ListedTarget& target) {
  const auto [values, offsets, ends, rows] = listed;
  auto [start, start_step, first, step, lowest] = target;
  const __m512 floor = _mm512_set1_ps(lowest);
  for (std::size_t r = 0; r < rows; ++r, start += start_step, first += step) {
    __m512 sums[Vectors];
#pragma GCC unroll 13
    for (std::size_t v = 0; v < Vectors; ++v) sums[v] = _mm512_loadu_ps(start + v * kFloats);
    const std::size_t end = ends[r + 1];
    for (std::size_t i = ends[r]; i < end; ++i) {
      const float* right = panel + offsets[i];
      const __m512 factor = _mm512_set1_ps(values[i]);
#pragma GCC unroll 13
      for (std::size_t v = 0; v < Vectors; ++v) {
        sums[v] = _mm512_fmadd_ps(factor, _mm512_loadu_ps(right + v * kFloats), sums[v]);
      }
    }
#pragma GCC unroll 13
    for (std::size_t v = 0; v < Vectors; ++v) {
      _mm512_storeu_ps(first + v * kFloats, _mm512_maskz_max_ps(kAllLanes, floor, sums[v]));
    }
  }
}

using RowsFunction = void (*)(const ListedRows&, const float*, const ListedTarget&);
template <std::size_t... Index>
constexpr std::array<RowsFunction, sizeof...(Index)> ByVectors(std::index_sequence<Index...>) {
  return {MultiplyRows<Index + 1>...};
}

}  // namespace

void Avx512Lists::Multiply(std::size_t vectors, const ListedRows& rows, const float* panel,
                           const ListedTarget& target) {
  static constexpr auto kFunctions = ByVectors(std::make_index_sequence<kMaxVectors>());
  kFunctions[vectors - 1](rows, panel, target);
}

}  // namespace paceline::kernel::internal
#else
namespace paceline::kernel::internal {

void Avx512Lists::Multiply(std::size_t, const ListedRows&, const float*, const ListedTarget&) {
  PACELINE_CHECK(false, "vectors that this CPU supports");
}

}  // namespace paceline::kernel::internal
#endif
