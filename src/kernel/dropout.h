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
};

// Ranges handed to one call begin at a multiple of this, so that they can be cut for threads.
inline constexpr std::size_t kDropoutGroup = 64;

// mask[i] = 1 where the element is kept, else 0. `first` is the index of mask[0] in the whole
// tensor and a multiple of kDropoutGroup.
void DropoutMask(const DropoutOptions& options, std::size_t first, std::span<std::uint8_t> mask);

// What kept elements are multiplied by, so that the mean stays: 1 / (1 - p).
float DropoutScale(const DropoutOptions& options);

// out[i] = mask[i] ? values[i] * scale : 0. `out` may be the same memory as `values`.
void MaskedScale(std::span<const float> values, std::span<const std::uint8_t> mask, float scale,
                 std::span<float> out);

// out[i] = added[i] + (mask[i] ? values[i] * scale : 0).
void MaskedScaleAdd(std::span<const float> values, std::span<const std::uint8_t> mask, float scale,
                    std::span<const float> added, std::span<float> out);

// out[i] = values[i] * scale where `sign` is not 0 or less, else 0.
void ScaleWherePositive(std::span<const float> values, std::span<const float> sign, float scale,
                        std::span<float> out);

}  // namespace paceline::kernel
