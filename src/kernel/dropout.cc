#include "kernel/dropout.h"

#include <algorithm>
#include <bit>
#include <cmath>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/check.h"
#include "base/rng.h"

namespace paceline::kernel {

namespace {

// Eight Philox blocks side by side, one per lane: 8 x 128 bits = 64 numbers of 16 bits.
constexpr std::size_t kLanes = 8;

struct Lanes {
  std::uint32_t word[4][kLanes];
};

#if defined(__AVX2__)

// Four blocks in the 64-bit lanes of one register each; only the low 32 bits of a lane count, and
// _mm256_mul_epu32 ignores the rest, so the upper halves may hold anything.
struct FourBlocks {
  __m256i c0, c1, c2, c3;

  void Round(__m256i k0, __m256i k1) {
    const __m256i p0 = _mm256_mul_epu32(c0, _mm256_set1_epi64x(kPhiloxM0));
    const __m256i p1 = _mm256_mul_epu32(c2, _mm256_set1_epi64x(kPhiloxM1));
    c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), k0);
    c1 = p1;
    c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), k1);
    c3 = p0;
  }
};

FourBlocks BlocksFrom(std::uint64_t first) {
  const auto low = [&](std::uint64_t i) {
    return static_cast<long long>((first + i) & 0xFFFFFFFF);
  };
  const auto high = [&](std::uint64_t i) { return static_cast<long long>((first + i) >> 32); };
  return {_mm256_setr_epi64x(low(0), low(1), low(2), low(3)),
          _mm256_setr_epi64x(high(0), high(1), high(2), high(3)), _mm256_setzero_si256(),
          _mm256_setzero_si256()};
}

// The low halves of the eight 64-bit lanes, in order.
void StoreLowHalves(__m256i first, __m256i second, std::uint32_t* out) {
  const __m256 pairs =
      _mm256_shuffle_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second), 0x88);
  const __m256i ordered = _mm256_permute4x64_epi64(_mm256_castps_si256(pairs), 0xD8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), ordered);
}

void PhiloxLanes(std::uint64_t key, std::uint64_t group, Lanes& out) {
  FourBlocks a = BlocksFrom(group * kLanes), b = BlocksFrom(group * kLanes + 4);
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i key0 = _mm256_set1_epi64x(k0), key1 = _mm256_set1_epi64x(k1);
    a.Round(key0, key1);
    b.Round(key0, key1);
    k0 += kPhiloxW0;
    k1 += kPhiloxW1;
  }
  StoreLowHalves(a.c0, b.c0, out.word[0]);
  StoreLowHalves(a.c1, b.c1, out.word[1]);
  StoreLowHalves(a.c2, b.c2, out.word[2]);
  StoreLowHalves(a.c3, b.c3, out.word[3]);
}

#else

void PhiloxLanes(std::uint64_t key, std::uint64_t group, Lanes& out) {
  for (std::size_t l = 0; l < kLanes; ++l) {
    const std::uint64_t block = group * kLanes + l;
    const PhiloxBlock random =
        Philox({static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)},
               {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
    for (std::size_t w = 0; w < 4; ++w) out.word[w][l] = random[w];
  }
}

#endif

std::uint32_t Threshold(const DropoutOptions& options) {
  return static_cast<std::uint32_t>(std::lround(options.probability * 65536.0F));
}

// Element 8 * piece + lane takes the piece-th 16 bits of its lane's block.
void KeepGroup(const Lanes& random, std::uint32_t threshold, std::uint8_t* keep) {
  for (std::size_t piece = 0; piece < kDropoutGroup / kLanes; ++piece) {
    const std::uint32_t* word = random.word[piece / 2];
    const unsigned shift = piece % 2 == 0 ? 0 : 16;
    for (std::size_t l = 0; l < kLanes; ++l) {
      keep[piece * kLanes + l] =
          static_cast<std::uint8_t>(((word[l] >> shift) & 0xFFFF) >= threshold ? 1 : 0);
    }
  }
}

}  // namespace

float DropoutScale(const DropoutOptions& options) {
  return 65536.0F / static_cast<float>(65536U - Threshold(options));
}

void DropoutMask(const DropoutOptions& options, std::size_t first, std::span<std::uint8_t> mask) {
  PACELINE_CHECK(first % kDropoutGroup == 0, "ranges begin at a group");
  PACELINE_CHECK(options.probability >= 0.0F && options.probability < 1.0F, "probability in [0,1)");
  const std::uint32_t threshold = Threshold(options);
  Lanes random;
  for (std::size_t begin = 0; begin < mask.size(); begin += kDropoutGroup) {
    PhiloxLanes(options.key, (first + begin) / kDropoutGroup, random);
    std::uint8_t keep[kDropoutGroup];
    KeepGroup(random, threshold, keep);
    std::copy_n(keep, std::min(kDropoutGroup, mask.size() - begin), mask.data() + begin);
  }
}

void MaskedScale(std::span<const float> values, std::span<const std::uint8_t> mask, float scale,
                 std::span<float> out) {
  PACELINE_CHECK(values.size() == mask.size() && values.size() == out.size(),
                 "one mask byte per value");
  const float* v = values.data();
  const std::uint8_t* m = mask.data();
  float* o = out.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Bits, not a branch: a random branch costs ten times the multiplication.
    o[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(v[i] * scale) & (0U - m[i]));
  }
}

void MaskedScaleAdd(std::span<const float> values, std::span<const std::uint8_t> mask, float scale,
                    std::span<const float> added, std::span<float> out) {
  PACELINE_CHECK(
      values.size() == mask.size() && values.size() == out.size() && values.size() == added.size(),
      "one mask byte per value");
  const float* __restrict v = values.data();
  const std::uint8_t* __restrict m = mask.data();
  const float* __restrict a = added.data();
  float* __restrict o = out.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    o[i] = a[i] + std::bit_cast<float>(std::bit_cast<std::uint32_t>(v[i] * scale) & (0U - m[i]));
  }
}

void ScaleWherePositive(std::span<const float> values, std::span<const float> sign, float scale,
                        std::span<float> out) {
  PACELINE_CHECK(values.size() == sign.size() && values.size() == out.size(), "sizes");
  const float* __restrict v = values.data();
  const float* __restrict s = sign.data();
  float* __restrict o = out.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    // NaN counts as positive, or it would be hidden from the NaN policy.
    o[i] = s[i] <= 0.0F ? 0.0F : v[i] * scale;
  }
}

}  // namespace paceline::kernel
