#pragma once

#include <cstddef>
#include <span>

namespace paceline::kernel {

// A matrix in memory; transposing is a matter of steps.
struct MatrixView {
  std::span<const float> values;
  std::size_t row_step = 0;
  std::size_t column_step = 1;
};

struct ProductShape {
  std::size_t rows = 0;     // of the left factor and of the sum
  std::size_t columns = 0;  // of the right factor and of the sum
  std::size_t inner = 0;
};

// sum[r][c] += sum over k of left[r][k] * right[k][c]; `right` and `sum` are contiguous rows. Each
// element is added up in order of k, then to what was there, so that bits depend on the values
// alone. Meant for matrices that fit into the cache.
void AddProduct(const ProductShape& shape, const MatrixView& left, std::span<const float> right,
                std::span<float> sum);

// to[c][r] = from[r][c], both contiguous.
void Transpose(std::size_t rows, std::size_t columns, std::span<const float> from,
               std::span<float> to);

}  // namespace paceline::kernel
