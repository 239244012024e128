#include "base/check.h"
#include "kernel/internal/nonzeros.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <bit>

// Of this function alone: whatever else the compiler makes of this file runs on every CPU.
#define PACELINE_AVX512 gnu::target("avx512f,popcnt")

namespace paceline::kernel::internal {

[[PACELINE_AVX512]] std::size_t ListNonzerosAvx512(const ListSource& source, float* values,
                                                   std::uint32_t* offsets) {
  constexpr std::size_t kFloats = 16;
  const auto [row, inner, offset_step] = source;
  const auto step = static_cast<int>(offset_step);
  const __m512i forward = _mm512_set1_epi32(step * static_cast<int>(kFloats));
  __m512i here =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(step));
  std::size_t end = 0;
  for (std::size_t k = 0; k < inner; k += kFloats) {
    const bool whole = k + kFloats <= inner;
    const auto wanted = static_cast<__mmask16>(whole ? 0xFFFFU : (1U << (inner - k)) - 1);
    const __m512 vector = _mm512_maskz_loadu_ps(wanted, row + k);
    const __mmask16 lanes = _mm512_cmp_ps_mask(vector, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    _mm512_storeu_ps(values + end, _mm512_maskz_compress_ps(lanes, vector));
    _mm512_storeu_si512(offsets + end, _mm512_maskz_compress_epi32(lanes, here));
    here = _mm512_add_epi32(here, forward);
    end += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(lanes)));
  }
  return end;
}

}  // namespace paceline::kernel::internal
#else
namespace paceline::kernel::internal {

std::size_t ListNonzerosAvx512(const ListSource&, float*, std::uint32_t*) {
  PACELINE_CHECK(false, "vectors that this CPU supports");
}

}  // namespace paceline::kernel::internal
#endif
