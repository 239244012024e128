#include "kernel/matrix_product.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernel/internal/product_tile.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

std::vector<float> Random(CounterRng& rng, std::size_t floats) {
  std::vector<float> values(floats);
  for (float& value : values) value = rng.Normal();
  return values;
}

std::vector<float> Transposed(std::size_t rows, std::size_t columns,
                              const std::vector<float>& from) {
  std::vector<float> to(from.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
  return to;
}

struct Factors {
  ProductShape shape;
  std::vector<float> left, right;

  // Element (r, c), added up in order of k with one rounding each.
  float Fused(std::size_t r, std::size_t c) const {
    float total = 0;
    for (std::size_t k = 0; k < shape.inner; ++k) {
      total = std::fma(left[r * shape.inner + k], right[k * shape.columns + c], total);
    }
    return total;
  }
  double Exact(std::size_t r, std::size_t c) const {
    double total = 0;
    for (std::size_t k = 0; k < shape.inner; ++k) {
      total += double{left[r * shape.inner + k]} * double{right[k * shape.columns + c]};
    }
    return total;
  }
};

Factors RandomFactors(const ProductShape& shape) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, shape.rows, shape.columns);
  return {shape, Random(rng, shape.rows * shape.inner), Random(rng, shape.inner * shape.columns)};
}

// With both factors as they are and transposed: four results.
std::vector<std::vector<float>> AllWays(const Factors& factors, Into into,
                                        const std::vector<float>& before) {
  const auto [rows, columns, inner] = factors.shape;
  const auto left = Transposed(rows, inner, factors.left),
             right = Transposed(inner, columns, factors.right);
  std::vector<std::vector<float>> results;
  for (const MatrixView& a : {MatrixView{factors.left, inner, 1}, MatrixView{left, 1, rows}}) {
    for (const MatrixView& b :
         {MatrixView{factors.right, columns, 1}, MatrixView{right, 1, inner}}) {
      results.push_back(before);
      Multiply(factors.shape, a, b, {results.back(), columns, into});
    }
  }
  return results;
}

TEST(MatrixProduct, EqualsPlainLoopsToTheBitForAllSizesAlsoTransposed) {
  for (const std::size_t rows : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 13U}) {
    for (const std::size_t columns : {0U, 1U, 7U, 8U, 9U, 16U, 17U, 31U, 40U}) {
      for (const std::size_t inner : {0U, 1U, 7U, 8U, 19U, 128U}) {
        const Factors factors = RandomFactors({rows, columns, inner});
        CounterRng rng(testing::TestSeed(), Purpose::kTest, inner, 1);
        const auto before = Random(rng, rows * columns);
        std::vector<float> product(before.size()), sum(before.size());
        for (std::size_t i = 0; i < product.size(); ++i) {
          product[i] = factors.Fused(i / columns, i % columns);
          sum[i] = before[i] + product[i];
        }
        for (const auto& result : AllWays(factors, Into::kOverwrite, before)) {
          EXPECT_EQ(result, product) << rows << " " << columns << " " << inner;
        }
        for (const auto& result : AllWays(factors, Into::kAdd, before)) {
          EXPECT_EQ(result, sum) << rows << " " << columns << " " << inner;
        }
      }
    }
  }
}

TEST(MatrixProduct, LongSumsAreAddedUpInBlocks) {
  for (const std::size_t inner : {129U, 256U, 257U, 416U, 417U, 1000U}) {
    const Factors factors = RandomFactors({7, 19, inner});
    for (const auto& result : AllWays(factors, Into::kOverwrite, std::vector<float>(7 * 19))) {
      for (std::size_t i = 0; i < result.size(); ++i) {
        ASSERT_NEAR(result[i], factors.Exact(i / 19, i % 19), 1e-5 * std::sqrt(inner) * 4)
            << inner << " " << i;
      }
    }
  }
}

TEST(MatrixProduct, ManyRowsAndColumnsComeInParts) {
  constexpr std::size_t kColumns = 13 * 32 + 17;
  for (const std::size_t rows : {96U, 97U, 409U}) {
    const Factors factors = RandomFactors({rows, kColumns, 30});
    for (const auto& result :
         AllWays(factors, Into::kOverwrite, std::vector<float>(rows * kColumns))) {
      for (std::size_t i = 0; i < result.size(); ++i) {
        ASSERT_EQ(result[i], factors.Fused(i / kColumns, i % kColumns)) << rows << " " << i;
      }
    }
  }
}

TEST(MatrixProduct, IsScaledAndLeavesWhatLiesBetweenItsRows) {
  constexpr std::size_t kStep = 20;
  for (const std::size_t columns : {5U, 16U}) {
    const Factors factors = RandomFactors({7, columns, 9});
    for (const Into into : {Into::kOverwrite, Into::kAdd}) {
      std::vector<float> result(6 * kStep + columns, 3.0F);
      Multiply(factors.shape, {factors.left, 9}, {factors.right, columns},
               {result, kStep, into, 0.5F});
      for (std::size_t i = 0; i < result.size(); ++i) {
        const float product =
            i % kStep < columns ? 0.5F * factors.Fused(i / kStep, i % kStep) : 0.0F;
        const bool kept = i % kStep >= columns || into == Into::kAdd;
        EXPECT_EQ(result[i], kept ? 3.0F + product : product) << i;
      }
    }
  }
}

// Rows and columns around the sizes of both kinds of tiles, one and several blocks of k.
TEST(MatrixProduct, HasTheSameBitsWithEveryKindOfVectors) {
  using internal::Tiles;
  if (!Supported(Tiles::kAvx512)) GTEST_SKIP() << "this CPU has no AVX-512";
  for (const std::size_t rows : {1U, 5U, 7U, 11U, 12U, 13U, 23U, 97U, 409U}) {
    for (const std::size_t columns : {1U, 15U, 16U, 17U, 31U, 32U, 33U, 433U}) {
      for (const std::size_t inner : {1U, 30U, 257U, 417U}) {
        const Factors factors = RandomFactors({rows, columns, inner});
        const auto transposed = Transposed(rows, inner, factors.left);
        for (const MatrixView& left :
             {MatrixView{factors.left, inner, 1}, MatrixView{transposed, 1, rows}}) {
          std::vector<float> wide(rows * columns, 3.0F), narrow(wide);
          const MatrixView right{factors.right, columns};
          MultiplyWith(Tiles::kAvx512, factors.shape, left, right, {wide, columns, Into::kAdd, 2});
          MultiplyWith(Tiles::kAvx2, factors.shape, left, right, {narrow, columns, Into::kAdd, 2});
          ASSERT_EQ(wide, narrow) << rows << " " << columns << " " << inner;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::kernel
