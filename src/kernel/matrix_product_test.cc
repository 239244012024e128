#include "kernel/matrix_product.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

std::vector<float> Random(CounterRng& rng, std::size_t floats) {
  std::vector<float> values(floats);
  for (float& value : values) value = rng.Normal();
  return values;
}

TEST(MatrixProduct, EqualsPlainLoopsToTheBitForAllSizesAlsoTransposed) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
  for (const std::size_t rows : {0U, 1U, 3U, 4U, 5U, 9U}) {
    for (const std::size_t columns : {0U, 1U, 7U, 8U, 9U, 16U, 27U}) {
      for (const std::size_t inner : {0U, 1U, 6U}) {
        const auto left = Random(rng, rows * inner), right = Random(rng, inner * columns);
        auto sum = Random(rng, rows * columns), expected = sum;
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t c = 0; c < columns; ++c) {
            float total = 0;
            for (std::size_t k = 0; k < inner; ++k) {
              total += left[r * inner + k] * right[k * columns + c];
            }
            expected[r * columns + c] += total;
          }
        }
        auto again = sum;
        AddProduct({rows, columns, inner}, {left, inner, 1}, right, sum);
        EXPECT_EQ(sum, expected) << rows << " " << columns << " " << inner;
        std::vector<float> transposed(left.size());
        Transpose(rows, inner, left, transposed);
        AddProduct({rows, columns, inner}, {transposed, 1, rows}, right, again);
        EXPECT_EQ(again, expected) << rows << " " << columns << " " << inner;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::kernel
