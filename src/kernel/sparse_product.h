#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include "base/line_vector.h"
#include "kernel/internal/nonzeros.h"
#include "kernel/internal/product_tile.h"
#include "kernel/matrix_product.h"

namespace paceline::kernel {

// Where the result of a product lies, perhaps transposed (one of the steps is 1), and what is done
// to it on the way.
struct SparseResult {
  std::span<float> values;
  std::size_t row_step = 0;
  std::size_t column_step = 1;
  std::span<const float> start = {};                      // of each column's sums; none: 0
  float floor = -std::numeric_limits<float>::infinity();  // what is less becomes this; 0: ReLU
};

// Which part of a row-major matrix's values is not 0, as some of its rows, always the same, have
// it.
double NonzeroShare(std::span<const float> matrix, std::size_t columns);

// Products of a left factor with many zeros, such as what a ReLU lets through: these take no time.
// Thread-compatible; owns memory for the largest product so far.
class SparseProduct {
 public:
  explicit SparseProduct(internal::Tiles tiles = internal::BestTiles())
      : tiles_(tiles), nonzeros_(tiles) {}

  // Whether Multiply() is likely to be faster than kernel::Multiply() when so many of the left
  // factor's values are not 0. Decides about bits, so the answer is the same on every machine.
  static bool Pays(const ProductShape& shape, double left_share);

  // result[r][c] = max(floor, start[c] + sum over k of left[r][k] * right[k][c]), a chain of fused
  // multiply-adds in order of k. Where left[r][k] is 0, right[k][c] is not looked at, not even when
  // it is infinite or NaN.
  void Multiply(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
                const SparseResult& result);

 private:
  // How a product is cut into panels of the right factor.
  struct Blocks {
    std::size_t columns, inner;  // of a panel
    bool packed;                 // its rows are copied one behind the other
    std::size_t first_column;    // of those that are worked on
  };
  template <typename Lists>
  void MultiplyWith(const ProductShape& shape, const MatrixView& left, const MatrixView& right,
                    const SparseResult& result);
  template <typename Lists>
  void MultiplyColumns(const ProductShape& shape, const MatrixView& right,
                       const SparseResult& result, const Blocks& blocks);

  internal::Tiles tiles_;
  internal::Nonzeros nonzeros_;
  LineVector<float> strip_;  // a panel of the result that cannot be written in place
};

}  // namespace paceline::kernel
