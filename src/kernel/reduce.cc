#include "kernel/reduce.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace paceline::kernel {

void AddInto(std::span<float> sum, std::span<const float> addend) {
  PACELINE_CHECK(sum.size() == addend.size(), "same length");
  float* __restrict s = sum.data();
  const float* __restrict a = addend.data();
  for (std::size_t i = 0; i < sum.size(); ++i) s[i] += a[i];
}

// Sums are kept in registers before any of them is stored, so that destinations may be sources.
void AddSpread(std::span<const float> left, std::span<const float> right,
               std::span<float* const> destinations) {
  PACELINE_CHECK(left.size() == right.size(), "same length");
  using Vector = float __attribute__((vector_size(32)));
  constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float), kAtOnce = 4 * kFloats;
  std::size_t i = 0;
  for (; i + kAtOnce <= left.size(); i += kAtOnce) {
    Vector sums[4];
    for (std::size_t k = 0; k < 4; ++k) {
      Vector a, b;
      std::memcpy(&a, left.data() + i + k * kFloats, sizeof(a));
      std::memcpy(&b, right.data() + i + k * kFloats, sizeof(b));
      sums[k] = a + b;
    }
    for (float* destination : destinations) std::memcpy(destination + i, sums, sizeof(sums));
  }
  for (; i < left.size(); ++i) {
    const float sum = left[i] + right[i];
    for (float* destination : destinations) destination[i] = sum;
  }
}

void Scale(std::span<float> values, float factor) {
  for (float& value : values) value *= factor;
}

void MoveTowards(std::span<float> average, std::span<const float> values, float weight) {
  PACELINE_CHECK(average.size() == values.size(), "same length");
  float* __restrict a = average.data();
  const float* __restrict v = values.data();
  for (std::size_t i = 0; i < average.size(); ++i) a[i] += weight * (v[i] - a[i]);
}

double SquaredNorm(std::span<const float> values) {
  constexpr std::size_t kParts = 16;
  double parts[kParts] = {};
  std::size_t i = 0;
  for (; i + kParts <= values.size(); i += kParts) {
    for (std::size_t k = 0; k < kParts; ++k) {
      const auto x = static_cast<double>(values[i + k]);
      parts[k] += x * x;
    }
  }
  for (std::size_t k = 0; i < values.size(); ++i, ++k) {
    const auto x = static_cast<double>(values[i]);
    parts[k] += x * x;
  }
  double total = 0;
  for (const double part : parts) total += part;
  return total;
}

// Without its sign a float orders as its bits do, and Inf and NaN come last.
bool AllFinite(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU);
  }
  return largest < 0x7F80'0000U;
}

}  // namespace paceline::kernel
