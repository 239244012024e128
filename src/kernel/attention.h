#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::kernel {

// Scaled dot-product attention of one head of one sample, forward and backward. Rows of queries,
// keys and values lie where the projections left them, `step` floats apart, so that nothing is
// copied or transposed. Products: matrix_product.h.

struct HeadRows {
  const float* first = nullptr;
  std::size_t step = 0;
};
struct HeadGradientRows {
  float* first = nullptr;
  std::size_t step = 0;
};

struct HeadShape {
  std::size_t queries = 0;
  std::size_t keys = 0;
  std::size_t width = 0;  // floats of a row
  bool causal = false;    // query i sees keys 0 .. i only
};

struct HeadInput {
  HeadRows query, key, value;
};

// One byte for each (query, key), 1 where kept; empty: no dropout.
struct HeadDropout {
  std::span<const std::uint8_t> mask;
  float scale = 1;
};

// probabilities [queries, keys] are those before dropout; the backward pass needs them again.
// `scratch` has as many floats.
struct HeadOutput {
  std::span<float> probabilities;
  std::span<float> scratch;
  HeadGradientRows output;
};
void Attend(const HeadShape& shape, const HeadInput& input, const HeadDropout& dropout,
            const HeadOutput& output);

// `scratch` has twice as many floats as probabilities.
struct HeadGradient {
  std::span<const float> probabilities;
  std::span<float> scratch;
  HeadRows output_gradient;
  HeadGradientRows query, key, value;  // overwritten
};
void AttendBackward(const HeadShape& shape, const HeadInput& input, const HeadDropout& dropout,
                    const HeadGradient& gradient);

}  // namespace paceline::kernel
