#pragma once

#include <span>

namespace paceline::kernel {

// sum[i] += addend[i].
void AddInto(std::span<float> sum, std::span<const float> addend);

// destination[i] = left[i] + right[i] for every destination; a destination may be left or right.
void AddSpread(std::span<const float> left, std::span<const float> right,
               std::span<float* const> destinations);

void Scale(std::span<float> values, float factor);

// average[i] += weight * (values[i] - average[i]).
void MoveTowards(std::span<float> average, std::span<const float> values, float weight);

// Sum of squares in double, added in a fixed order (16 interleaved partial sums, then their sum in
// order of index), so that the bits depend on the values alone. Not finite when any value is NaN or
// Inf: one pass answers both "how long is the gradient" and "is it usable".
double SquaredNorm(std::span<const float> values);

bool AllFinite(std::span<const float> values);

}  // namespace paceline::kernel
