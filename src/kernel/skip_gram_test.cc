#include "kernel/skip_gram.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

using Rows = std::vector<std::vector<float>>;

Rows RandomRows(CounterRng& rng, std::size_t rows, std::size_t dim) {
  Rows values(rows, std::vector<float>(dim));
  for (auto& row : values) {
    for (float& value : row) value = rng.Normal() / std::sqrt(static_cast<float>(dim));
  }
  return values;
}

std::vector<float*> Pointers(Rows& rows) {
  std::vector<float*> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  return pointers;
}

double Step(std::span<float* const> inputs, std::span<float* const> outputs, std::size_t dim,
            float factor, const SkipGramSums& sums) {
  std::vector<float> scratch(SkipGramScratchFloats(inputs.size(), outputs.size(), dim));
  return SkipGramStep({{inputs.data(), inputs.size()}, {outputs.data(), outputs.size()}, dim},
                      factor, sums, scratch);
}

// The definition, in double.
struct Reference {
  double loss = 0;
  std::vector<std::vector<double>> inputs, outputs;
};
Reference Slow(const Rows& inputs, const Rows& outputs, std::size_t dim, double factor) {
  Reference result{.inputs = {inputs.size(), std::vector<double>(dim)},
                   .outputs = {outputs.size(), std::vector<double>(dim)}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      double score = 0;
      for (std::size_t d = 0; d < dim; ++d) score += double(inputs[i][d]) * double(outputs[o][d]);
      const double sigmoid = 1 / (1 + std::exp(-score)), label = o == 0 ? 1 : 0;
      result.loss -= std::log(o == 0 ? sigmoid : 1 - sigmoid);
      for (std::size_t d = 0; d < dim; ++d) {
        result.inputs[i][d] += factor * (label - sigmoid) * double(outputs[o][d]);
        result.outputs[o][d] += factor * (label - sigmoid) * double(inputs[i][d]);
      }
    }
  }
  return result;
}

void ExpectNear(const Rows& actual, const std::vector<std::vector<double>>& expected) {
  for (std::size_t r = 0; r < actual.size(); ++r) {
    for (std::size_t d = 0; d < actual[r].size(); ++d) {
      ASSERT_NEAR(actual[r][d], expected[r][d], 1e-5) << "row " << r << " element " << d;
    }
  }
}

TEST(SkipGram, MatchesItsDefinitionForAllSizes) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
  for (const std::size_t dim : {1U, 7U, 8U, 9U, 48U, 100U, 300U}) {
    for (const std::size_t inputs : {0U, 1U, 2U, 3U, 12U}) {
      for (const std::size_t outputs : {1U, 2U, 3U, 4U, 6U, 21U}) {
        Rows in = RandomRows(rng, inputs, dim), out = RandomRows(rng, outputs, dim);
        Rows in_sums(inputs, std::vector<float>(dim)), out_sums(outputs, std::vector<float>(dim));
        const Reference slow = Slow(in, out, dim, -0.5);
        const auto loss =
            Step(Pointers(in), Pointers(out), dim, -0.5F, {Pointers(in_sums), Pointers(out_sums)});
        EXPECT_NEAR(loss, slow.loss, 1e-5 * (1 + slow.loss));
        ExpectNear(in_sums, slow.inputs);
        ExpectNear(out_sums, slow.outputs);
      }
    }
  }
}

TEST(SkipGram, InPlaceEqualsGradientsAppliedAfterwardsAlsoForRepeatedRows) {
  constexpr std::size_t kDim = 29;
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 1, 0);
  Rows in = RandomRows(rng, 2, kDim), out = RandomRows(rng, 2, kDim);
  Rows in_sums(2, std::vector<float>(kDim)), out_sums(2, std::vector<float>(kDim));
  const auto repeated = [](Rows& rows) {  // row 0 is there twice
    return std::vector<float*>{rows[0].data(), rows[1].data(), rows[0].data()};
  };
  const Rows in_before = in, out_before = out;
  Step(repeated(in), repeated(out), kDim, 0.1F, {repeated(in_sums), repeated(out_sums)});
  Step(repeated(in), repeated(out), kDim, 0.1F, {repeated(in), repeated(out)});
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t d = 0; d < kDim; ++d) {
      EXPECT_NEAR(in[r][d], in_before[r][d] + in_sums[r][d], 1e-6);
      EXPECT_NEAR(out[r][d], out_before[r][d] + out_sums[r][d], 1e-6);
    }
  }
}

TEST(SkipGram, LossStaysFiniteForHugeScoresAndShowsNaN) {
  Rows in{{1000}}, out{{-1000}, {1000}}, sums{{0}}, out_sums{{0}, {0}};
  EXPECT_NEAR(Step(Pointers(in), Pointers(out), 1, 1, {Pointers(sums), Pointers(out_sums)}), 34.7,
              0.1);
  EXPECT_FLOAT_EQ(sums[0][0], -2000);
  in[0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(
      std::isnan(Step(Pointers(in), Pointers(out), 1, 1, {Pointers(sums), Pointers(out_sums)})));
}

TEST(Sigmoid, IsExactToTwoTenMillionths) {
  std::vector<float> values;
  for (float x = -87; x <= 87; x += 0.0137F) values.push_back(x);
  const std::vector<float> arguments = values;
  Sigmoid(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = 1 / (1 + std::exp(-double(arguments[i])));
    ASSERT_NEAR(values[i] / exact, 1, 2e-7) << arguments[i];
  }
}

TEST(Dot, AddsEveryElementOnce) {
  for (std::size_t n = 0; n < 40; ++n) {
    std::vector<float> left(n), right(n, 2.0F);
    for (std::size_t i = 0; i < n; ++i) left[i] = static_cast<float>(i + 1);
    EXPECT_FLOAT_EQ(Dot(left, right), static_cast<float>(n * (n + 1)));
  }
}

}  // namespace
}  // namespace paceline::kernel
