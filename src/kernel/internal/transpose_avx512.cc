#include "base/check.h"
#include "kernel/internal/pack.h"

#if defined(__x86_64__)
#include <immintrin.h>

// Of these functions alone: whatever else the compiler makes of this file runs on every CPU.
#define PACELINE_AVX512 gnu::target("avx512f")

namespace paceline::kernel::internal {

namespace {

constexpr std::size_t kSide = kWideSquare;
constexpr std::size_t kLane = 4;  // floats of a quarter of a vector
// GCC 12 takes the forms without masks for uses of uninitialised variables.
constexpr __mmask16 kFloats = 0xFFFF;
constexpr __mmask8 kPairs = 0xFF;

// Four neighbours of each of four rows.
[[PACELINE_AVX512, gnu::always_inline]] inline __m512 LoadLanes(const float* from,
                                                                std::size_t step) {
  __m512 lanes = _mm512_castps128_ps512(_mm_loadu_ps(from));
  lanes = _mm512_insertf32x4(lanes, _mm_loadu_ps(from + step), 1);
  lanes = _mm512_insertf32x4(lanes, _mm_loadu_ps(from + 2 * step), 2);
  return _mm512_insertf32x4(lanes, _mm_loadu_ps(from + 3 * step), 3);
}

// Lanes are put together by the loads, with rows r, r + 4, r + 8 and r + 12 in one vector; what is
// left is to transpose 4 x 4 floats within each lane. That is half as many shuffles, of which the
// CPU does one in a cycle, as from whole rows.
[[PACELINE_AVX512, gnu::always_inline]] inline void TransposeSquare(const float* from,
                                                                    std::size_t step, float* to,
                                                                    std::size_t to_step) {
#pragma GCC unroll 4
  for (std::size_t c = 0; c < kSide; c += kLane) {
    __m512 rows[kLane];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kLane; ++r) {
      rows[r] = LoadLanes(from + r * step + c, kLane * step);
    }
    const __m512d low01 = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(kFloats, rows[0], rows[1]));
    const __m512d high01 = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(kFloats, rows[0], rows[1]));
    const __m512d low23 = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(kFloats, rows[2], rows[3]));
    const __m512d high23 = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(kFloats, rows[2], rows[3]));
    float* first = to + c * to_step;
    _mm512_storeu_pd(first, _mm512_maskz_unpacklo_pd(kPairs, low01, low23));
    _mm512_storeu_pd(first + to_step, _mm512_maskz_unpackhi_pd(kPairs, low01, low23));
    _mm512_storeu_pd(first + 2 * to_step, _mm512_maskz_unpacklo_pd(kPairs, high01, high23));
    _mm512_storeu_pd(first + 3 * to_step, _mm512_maskz_unpackhi_pd(kPairs, high01, high23));
  }
}

}  // namespace

[[PACELINE_AVX512]] void TransposeWideSquares(const Area& area, const Rows<const float>& from,
                                              const Rows<float>& to) {
  for (std::size_t r = 0; r < area.rows; r += kSide) {
    for (std::size_t c = 0; c < area.columns; c += kSide) {
      TransposeSquare(from.first + r * from.step + c, from.step, to.first + c * to.step + r,
                      to.step);
    }
  }
}

}  // namespace paceline::kernel::internal
#else
namespace paceline::kernel::internal {

void TransposeWideSquares(const Area&, const Rows<const float>&, const Rows<float>&) {
  PACELINE_CHECK(false, "vectors that this CPU supports");
}

}  // namespace paceline::kernel::internal
#endif
