#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::kernel {

// Dropout whose mask is a pure function of (key, index of the element in its tensor): no generator
// runs, so a mask does not depend on threads, on ranges, or on what was drawn before.
struct DropoutOptions {
  std::uint64_t key = 0;     // from DeriveKey(seed, Purpose::kDropout, ...)
  float probability = 0.0F;  // of dropping an element, in steps of 1/65536
  bool relu = false;         // also drop negative elements: ReLU and dropout in one pass
};

// Ranges handed to one call begin at a multiple of this, so that they can be cut for threads.
inline constexpr std::size_t kDropoutGroup = 64;

// values[i] = keep ? values[i] / (1 - p) : 0, in place; mask[i] = 1 where kept. `first` is the
// index of values[0] in the whole tensor and a multiple of kDropoutGroup.
void DropoutForward(const DropoutOptions& options, std::size_t first, std::span<float> values,
                    std::span<std::uint8_t> mask);

// out[i] = mask[i] ? gradient[i] * scale : 0. `out` may be the same memory as `gradient`.
void MaskedScale(std::span<const float> gradient, std::span<const std::uint8_t> mask, float scale,
                 std::span<float> out);

// 1 / (1 - p) as DropoutForward applies it.
float DropoutScale(const DropoutOptions& options);

}  // namespace paceline::kernel
