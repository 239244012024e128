#pragma once

#include <cstddef>
#include <span>

namespace paceline::kernel {

// A matrix in memory; transposing is a matter of steps. One of the steps is 1.
struct MatrixView {
  std::span<const float> values;
  std::size_t row_step = 0;
  std::size_t column_step = 1;
};

struct ProductShape {
  std::size_t rows = 0;     // of the left factor and of the result
  std::size_t columns = 0;  // of the right factor and of the result
  std::size_t inner = 0;
};

enum class Into { kOverwrite, kAdd };

struct ProductResult {
  std::span<float> values;
  std::size_t row_step = 0;
  Into into = Into::kOverwrite;
  float scale = 1;
};

// result[r][c] = or += scale * sum over k of left[r][k] * right[k][c]. Each element is added up in
// order of k with fused multiply-adds, in blocks of k whose length depends on `inner` and on the
// way the left factor lies, so that bits depend on the values and on nothing else. On the calling
// thread, with up to 0.9 MB of its stack. Needs a CPU with FMA (base/cpu.h).
void Multiply(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
              const ProductResult& result);

}  // namespace paceline::kernel
