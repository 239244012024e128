#include <array>
#include <cstring>
#include <utility>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "kernel/internal/listed_rows.h"

namespace paceline::kernel::internal {

namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr std::size_t kFloats = Avx2Lists::kFloats;

inline Vector Load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

inline void Store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof(vector)); }

// Rounded once, as in product_tile_avx2.cc.
inline Vector MultiplyAdd(float factor, Vector vector, Vector sum) {
#if defined(__FMA__)
  return _mm256_fmadd_ps(_mm256_set1_ps(factor), vector, sum);
#else
  return factor * vector + sum;
#endif
}

// The larger one, or `value` when that is NaN.
inline Vector AtLeast(Vector floor, Vector value) {
#if defined(__FMA__)
  return _mm256_max_ps(floor, value);
#else
  return value < floor ? floor : value;
#endif
}

// The order of loads matters: of two in one cycle an AMD EPYC wants one from each half of a line of
// its cache, or it takes half as long again. In order of address they are; the build keeps GCC from
// changing that. Arguments are copied, or each store would make the compiler read them again.
template <std::size_t Vectors>
void MultiplyRows(const ListedRows& listed, const float* panel, const ListedTarget& target) {
  const auto [values, offsets, ends, rows] = listed;
  auto [start, start_step, first, step, lowest] = target;
  const Vector floor = Vector{} + lowest;
  for (std::size_t r = 0; r < rows; ++r, start += start_step, first += step) {
    Vector sums[Vectors];
#pragma GCC unroll 13
    for (std::size_t v = 0; v < Vectors; ++v) sums[v] = Load(start + v * kFloats);
    const std::size_t end = ends[r + 1];
    for (std::size_t i = ends[r]; i < end; ++i) {
      const float* right = panel + offsets[i];
      const float factor = values[i];
#pragma GCC unroll 13
      for (std::size_t v = 0; v < Vectors; ++v) {
        sums[v] = MultiplyAdd(factor, Load(right + v * kFloats), sums[v]);
      }
    }
#pragma GCC unroll 13
    for (std::size_t v = 0; v < Vectors; ++v) {
      Store(first + v * kFloats, AtLeast(floor, sums[v]));
    }
  }
}

using RowsFunction = void (*)(const ListedRows&, const float*, const ListedTarget&);
template <std::size_t... Index>
constexpr std::array<RowsFunction, sizeof...(Index)> ByVectors(std::index_sequence<Index...>) {
  return {MultiplyRows<Index + 1>...};
}

}  // namespace

void Avx2Lists::Multiply(std::size_t vectors, const ListedRows& rows, const float* panel,
                         const ListedTarget& target) {
  static constexpr auto kFunctions = ByVectors(std::make_index_sequence<kMaxVectors>());
  kFunctions[vectors - 1](rows, panel, target);
}

}  // namespace paceline::kernel::internal
