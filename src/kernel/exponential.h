#pragma once

#include <bit>
#include <cstdint>

namespace paceline::kernel {

// e^x of x <= 88, without branches, so that loops over it become vector code: 2^n times a
// polynomial on +-ln(2)/2 (coefficients of Cephes' expf), relative error below 2^-22. Exactly 0
// below -87, where floats would become denormal; NaN stays NaN.
inline float Exponential(float x) {
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12'582'912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer
  const float low = x < -87.0F ? -87.0F : x;
  const float shifted = low * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (low - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23;
  const float value = p * std::bit_cast<float>(exponent);
  const std::uint32_t keep = x < -87.0F ? 0U : 0xFFFFFFFFU;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & keep);
}

}  // namespace paceline::kernel
