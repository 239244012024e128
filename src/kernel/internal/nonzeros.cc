#include "kernel/internal/nonzeros.h"

#include <algorithm>
#include <array>
#include <bit>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernel/internal/pack.h"

namespace paceline::kernel::internal {

namespace {

constexpr std::size_t kFloats = 8;  // of a vector of AVX2

#if defined(__AVX2__)
// Byte i of an entry says which lane comes to place i when the lanes whose bits are set in the
// entry's index move to the front. The other places hold anything.
constexpr std::array<std::uint64_t, 256> FrontOrders() {
  std::array<std::uint64_t, 256> orders{};
  for (std::size_t mask = 0; mask < orders.size(); ++mask) {
    unsigned place = 0;
    for (std::uint64_t lane = 0; lane < kFloats; ++lane) {
      if ((mask >> lane & 1) != 0) orders[mask] |= lane << (8 * place++);
    }
  }
  return orders;
}
constexpr std::array<std::uint64_t, 256> kFrontOrders = FrontOrders();

unsigned NonzeroLanes(__m256 vector) {
  return static_cast<unsigned>(
      _mm256_movemask_ps(_mm256_cmp_ps(vector, _mm256_setzero_ps(), _CMP_NEQ_UQ)));
}
#endif

}  // namespace

std::size_t ListNonzerosAvx2(const ListSource& source, float* values, std::uint32_t* offsets) {
  const auto [row, inner, offset_step] = source;
  std::size_t end = 0;
  std::size_t k = 0;
#if defined(__AVX2__)
  const auto step = static_cast<int>(offset_step);
  const __m256i forward = _mm256_set1_epi32(step * static_cast<int>(kFloats));
  __m256i here =
      _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(step));
  for (; k + kFloats <= inner; k += kFloats) {
    const __m256 vector = _mm256_loadu_ps(row + k);
    const unsigned lanes = NonzeroLanes(vector);
    const __m256i order =
        _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kFrontOrders[lanes])));
    _mm256_storeu_ps(values + end, _mm256_permutevar8x32_ps(vector, order));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(offsets + end),
                        _mm256_permutevar8x32_epi32(here, order));
    here = _mm256_add_epi32(here, forward);
    end += static_cast<std::size_t>(std::popcount(lanes));
  }
#endif
  for (; k < inner; ++k) {
    values[end] = row[k];
    offsets[end] = static_cast<std::uint32_t>(k) * offset_step;
    end += row[k] != 0.0F ? 1 : 0;
  }
  return end;
}

void Nonzeros::Append(const ListSource& source) {
  const std::size_t end = ends_.back();
  float* values = values_.data() + end;
  std::uint32_t* offsets = offsets_.data() + end;
  ends_.push_back(end + (tiles_ == Tiles::kAvx512 ? ListNonzerosAvx512(source, values, offsets)
                                                  : ListNonzerosAvx2(source, values, offsets)));
}

void Nonzeros::Assign(const Shape& shape, const MatrixView& left) {
  constexpr std::size_t kTogether = 16;  // rows of a transposed factor: a line of the cache
  const std::size_t most = shape.rows * shape.inner + kListMargin;
  if (values_.size() < most) {
    values_.resize(most);
    offsets_.resize(most);
  }
  rows_ = shape.rows;
  ends_.assign(1, 0);
  const auto offset_step = static_cast<std::uint32_t>(shape.offset_step);
  for (std::size_t k = 0; k < shape.inner; k += shape.block) {
    const std::size_t inner = std::min(shape.block, shape.inner - k);
    const float* first = left.values.data() + k * left.column_step;
    if (left.column_step == 1) {
      for (std::size_t r = 0; r < rows_; ++r) {
        Append({first + r * left.row_step, inner, offset_step});
      }
      continue;
    }
    float rows[kTogether * kMaxBlock];
    for (std::size_t r = 0; r < rows_; r += kTogether) {
      const std::size_t count = std::min(kTogether, rows_ - r);
      Transpose({inner, count}, {first + r, left.column_step}, {rows, kMaxBlock});
      for (std::size_t i = 0; i < count; ++i) Append({rows + i * kMaxBlock, inner, offset_step});
    }
  }
}

}  // namespace paceline::kernel::internal
