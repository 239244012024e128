#include "kernel/reduce.h"

#include <cstddef>

#include "base/check.h"

namespace paceline::kernel {

void AddInto(std::span<float> sum, std::span<const float> addend) {
  PACELINE_CHECK(sum.size() == addend.size(), "same length");
  float* __restrict s = sum.data();
  const float* __restrict a = addend.data();
  for (std::size_t i = 0; i < sum.size(); ++i) s[i] += a[i];
}

void Scale(std::span<float> values, float factor) {
  for (float& value : values) value *= factor;
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

}  // namespace paceline::kernel
