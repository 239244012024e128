#include "kernel/sparse_product.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/line_vector.h"
#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

using internal::Tiles;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A product in all the ways in which its matrices can lie in memory.
struct Example {
  ProductShape shape;
  std::vector<float> left, right, start;

  Example(const ProductShape& sizes, float share) : shape(sizes), start(sizes.columns) {
    CounterRng rng(testing::TestSeed(), Purpose::kTest, shape.rows * shape.inner, shape.columns);
    left.resize(shape.rows * shape.inner);
    for (float& value : left) value = rng.Uniform() < share ? rng.Normal() : 0.0F;
    right.resize(shape.inner * shape.columns);
    for (float& value : right) value = rng.Normal();
    for (float& value : start) value = rng.Normal();
  }

  static std::vector<float> Transposed(const std::vector<float>& from, std::size_t columns) {
    std::vector<float> to(from.size());
    const std::size_t rows = columns == 0 ? 0 : from.size() / columns;
    for (std::size_t i = 0; i < from.size(); ++i) to[i % columns * rows + i / columns] = from[i];
    return to;
  }

  // Added up in order of k with one rounding each.
  std::vector<float> Expected(bool with_start, float floor) const {
    std::vector<float> expected(shape.rows * shape.columns);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t r = i / shape.columns, c = i % shape.columns;
      float sum = with_start ? start[c] : 0.0F;
      for (std::size_t k = 0; k < shape.inner; ++k) {
        sum = std::fma(left[r * shape.inner + k], right[k * shape.columns + c], sum);
      }
      expected[i] = sum < floor ? floor : sum;
    }
    return expected;
  }

  std::vector<std::vector<float>> AllWays(SparseProduct& product, bool with_start,
                                          float floor) const {
    const auto [rows, columns, inner] = shape;
    const auto left_columns = Transposed(left, inner), right_columns = Transposed(right, columns);
    std::vector<std::vector<float>> results;
    for (const MatrixView& a : {MatrixView{left, inner}, MatrixView{left_columns, 1, rows}}) {
      for (const MatrixView& b :
           {MatrixView{right, columns}, MatrixView{right_columns, 1, inner}}) {
        for (const bool transposed : {false, true}) {
          std::vector<float> result(rows * columns, kNan);
          product.Multiply(shape, a, b,
                           {.values = result,
                            .row_step = transposed ? 1 : columns,
                            .column_step = transposed ? rows : 1,
                            .start = with_start ? start : std::span<const float>(),
                            .floor = floor});
          results.push_back(transposed ? Transposed(result, rows) : result);
        }
      }
    }
    return results;
  }
};

void ExpectPlainLoops(SparseProduct& product, const ProductShape& shape, float share) {
  constexpr float kNoFloor = -std::numeric_limits<float>::infinity();
  const Example example(shape, share);
  for (const bool with_start : {false, true}) {
    for (const float floor : {kNoFloor, 0.0F}) {
      const auto expected = example.Expected(with_start, floor);
      for (const auto& result : example.AllWays(product, with_start, floor)) {
        ASSERT_EQ(result, expected) << shape.rows << " x " << shape.columns << " x " << shape.inner
                                    << ", share " << share << ", floor " << floor;
      }
    }
  }
}

class SparseProductOf : public ::testing::TestWithParam<Tiles> {};
INSTANTIATE_TEST_SUITE_P(Vectors, SparseProductOf, ::testing::Values(Tiles::kAvx2, Tiles::kAvx512));

// The same object does them all, so memory of a larger product must not show in a smaller one.
TEST_P(SparseProductOf, EqualsPlainLoopsToTheBit) {
  if (!Supported(GetParam())) GTEST_SKIP() << "this CPU has no AVX-512";
  SparseProduct product(GetParam());
  for (const float share : {0.5F, 0.0F, 1.0F}) {
    for (const std::size_t rows : {33U, 1U, 7U, 16U}) {
      for (const std::size_t columns : {230U, 1U, 8U, 15U, 16U, 17U, 104U, 105U, 209U}) {
        for (const std::size_t inner : {19U, 1U, 8U}) {
          ExpectPlainLoops(product, {rows, columns, inner}, share);
        }
      }
    }
  }
}

TEST_P(SparseProductOf, LongSumsAreOneChain) {
  if (!Supported(GetParam())) GTEST_SKIP() << "this CPU has no AVX-512";
  SparseProduct product(GetParam());
  for (const std::size_t inner : {72U, 73U, 100U, 257U, 1000U}) {
    ExpectPlainLoops(product, {17, 107, inner}, 0.3F);
    ExpectPlainLoops(product, {3, 9, inner}, 0.3F);
  }
}

// Where the right factor's rows begin with lines of the cache, an odd number of them long, vectors
// may be read from where they lie; a row longer than the product is wide has something behind it.
TEST_P(SparseProductOf, RightFactorInWholeLinesEqualsPlainLoops) {
  if (!Supported(GetParam())) GTEST_SKIP() << "this CPU has no AVX-512";
  SparseProduct product(GetParam());
  for (const std::size_t columns : {16U, 48U, 64U, 80U, 112U, 144U}) {
    for (const std::size_t row_step : {columns, columns + 16, columns + 32}) {
      const Example example({19, columns, 130}, 0.4F);
      LineVector<float> lines(130 * row_step, kNan);
      for (std::size_t i = 0; i < example.right.size(); ++i) {
        lines[i / columns * row_step + i % columns] = example.right[i];
      }
      std::vector<float> result(19 * columns);
      product.Multiply(example.shape, {example.left, 130}, {lines, row_step}, {result, columns});
      ASSERT_EQ(result, example.Expected(false, -std::numeric_limits<float>::infinity()))
          << columns << " columns, " << row_step << " floats apart";
    }
  }
}

TEST(SparseProduct, OfNothingChangesNothing) {
  SparseProduct product;
  product.Multiply({0, 5, 3}, {{}, 3}, {std::vector<float>(15), 5}, {{}, 5});
  product.Multiply({5, 0, 3}, {std::vector<float>(15), 3}, {{}, 0}, {{}, 0});
}

TEST(SparseProduct, LeavesWhatLiesBetweenTheRowsOfItsResult) {
  constexpr std::size_t kWideStep = 30;
  for (const std::size_t columns : {5U, 16U}) {
    const Example example({7, columns, 9}, 0.5F);
    const auto expected = example.Expected(false, 0);
    std::vector<float> result(6 * kWideStep + columns, 3.0F);
    SparseProduct().Multiply(example.shape, {example.left, 9}, {example.right, columns},
                             {.values = result, .row_step = kWideStep, .floor = 0});
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::size_t r = i / kWideStep, c = i % kWideStep;
      EXPECT_EQ(result[i], c < columns ? expected[r * columns + c] : 3.0F) << i;
    }
  }
}

// A diverged run must be seen.
TEST(SparseProduct, NanOfEitherFactorComesThroughUnlessItMeetsAZero) {
  for (const bool of_left : {false, true}) {
    std::vector<float> left{0, 1, 1, 0}, right{2, 3, 4, 5}, result(4);
    (of_left ? left[1] : right[2]) = kNan;
    SparseProduct().Multiply({2, 2, 2}, {left, 2}, {right, 2},
                             {.values = result, .row_step = 2, .floor = 0});
    EXPECT_TRUE(std::isnan(result[0]));
    EXPECT_EQ(result[2], 2.0F);
    EXPECT_EQ(result[3], 3.0F);
  }
}

TEST(SparseProduct, PaysWithManyZerosAndEnoughToDo) {
  EXPECT_TRUE(SparseProduct::Pays({100, 400, 400}, 0.5));
  EXPECT_FALSE(SparseProduct::Pays({100, 400, 400}, 0.9));
  EXPECT_FALSE(SparseProduct::Pays({100, 8, 400}, 0.5));
  EXPECT_FALSE(SparseProduct::Pays({1, 400, 400}, 0.5));
  EXPECT_FALSE(SparseProduct::Pays({100, 400, 0}, 0.5));
}

TEST(SparseProduct, ShareIsThatOfEvenlySpacedRows) {
  std::vector<float> matrix(130 * 4);
  EXPECT_EQ(NonzeroShare(matrix, 4), 0);
  for (std::size_t i = 0; i < matrix.size(); i += 2) matrix[i] = 1;
  matrix[0] = kNan;
  EXPECT_EQ(NonzeroShare(matrix, 4), 0.5);
  EXPECT_EQ(NonzeroShare({}, 4), 0);
}

}  // namespace
}  // namespace paceline::kernel
