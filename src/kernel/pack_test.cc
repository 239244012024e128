#include "kernel/internal/pack.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline::kernel::internal {
namespace {

class TransposeOf : public ::testing::TestWithParam<Tiles> {};
INSTANTIATE_TEST_SUITE_P(Vectors, TransposeOf, ::testing::Values(Tiles::kAvx2, Tiles::kAvx512));

// With rows on both sides that are longer than the area; what lies behind stays as it was.
TEST_P(TransposeOf, SwapsRowsAndColumnsAndNothingElse) {
  if (!Supported(GetParam())) GTEST_SKIP() << "this CPU has no AVX-512";
  for (const std::size_t rows : {0U, 1U, 7U, 8U, 16U, 17U, 25U, 32U, 100U}) {
    for (const std::size_t columns : {0U, 1U, 8U, 15U, 16U, 24U, 33U, 48U}) {
      const std::size_t step = columns + 3, to_step = rows + 5;
      std::vector<float> from(rows * step), to(columns * to_step, -1.0F), expected = to;
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) expected[c * to_step + r] = from[r * step + c];
      }
      TransposeWith(GetParam(), {rows, columns}, {from.data(), step}, {to.data(), to_step});
      ASSERT_EQ(to, expected) << rows << " x " << columns;
    }
  }
}

}  // namespace
}  // namespace paceline::kernel::internal
