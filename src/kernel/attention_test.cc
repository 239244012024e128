#include "kernel/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

constexpr std::size_t kWidth = 5, kStep = 7;

struct Case {
  HeadShape shape;
  std::vector<float> query, key, value;
  std::vector<std::uint8_t> mask;  // empty: no dropout
  float scale = 1;

  HeadInput Input() const {
    return {{query.data(), kStep}, {key.data(), kStep}, {value.data(), kStep}};
  }
  HeadDropout Dropout() const { return {mask, scale}; }
};

Case MakeCase(std::size_t queries, std::size_t keys, bool causal, bool dropout) {
  CounterRng rng(testing::TestSeed(), Purpose::kInit, queries * 100 + keys, 0);
  const auto random = [&](std::size_t rows) {
    std::vector<float> values(rows * kStep);
    for (float& value : values) value = rng.Uniform() - 0.5F;
    return values;
  };
  Case c{{queries, keys, kWidth, causal}, random(queries), random(keys), random(keys), {}};
  if (dropout) {
    for (std::size_t i = 0; i < queries * keys; ++i) c.mask.push_back(rng.Uniform() < 0.7F);
    c.scale = 1.5F;
  }
  return c;
}

// The definition, row by row, in double.
std::vector<double> Define(const Case& c) {
  std::vector<double> output(c.shape.queries * kWidth);
  for (std::size_t q = 0; q < c.shape.queries; ++q) {
    const std::size_t seen = c.shape.causal ? std::min(c.shape.keys, q + 1) : c.shape.keys;
    std::vector<double> weights(seen);
    double sum = 0;
    for (std::size_t k = 0; k < seen; ++k) {
      double dot = 0;
      for (std::size_t i = 0; i < kWidth; ++i) {
        dot += double{c.query[q * kStep + i]} * double{c.key[k * kStep + i]};
      }
      sum += weights[k] = std::exp(dot / std::sqrt(double{kWidth}));
    }
    for (std::size_t k = 0; k < seen; ++k) {
      const bool kept = c.mask.empty() || c.mask[q * c.shape.keys + k] == 1;
      const double weight = kept ? weights[k] / sum * double{c.scale} : 0;
      for (std::size_t i = 0; i < kWidth; ++i) {
        output[q * kWidth + i] += weight * double{c.value[k * kStep + i]};
      }
    }
  }
  return output;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const bool causal : {false, true}) {
    for (const bool dropout : {false, true}) {
      for (const auto& [queries, keys] :
           {std::pair<std::size_t, std::size_t>{1, 1}, {1, 9}, {4, 4}, {17, 17}, {3, 20}}) {
        cases.push_back(MakeCase(queries, keys, causal, dropout));
      }
    }
  }
  return cases;
}

TEST(Attend, IsItsDefinition) {
  for (const Case& c : Cases()) {
    const std::size_t cells = c.shape.queries * c.shape.keys;
    std::vector<float> probabilities(cells), scratch(cells), output(c.shape.queries * kWidth);
    Attend(c.shape, c.Input(), c.Dropout(), {probabilities, scratch, {output.data(), kWidth}});
    const std::vector<double> right = Define(c);
    for (std::size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(output[i], right[i], 1e-5) << i;
  }
}

// The loss is a weighted sum of the output; its slope along each input, by differences.
TEST(AttendBackward, IsTheSlopeOfTheDefinition) {
  for (Case& c : Cases()) {
    const std::size_t cells = c.shape.queries * c.shape.keys;
    std::vector<float> probabilities(cells), scratch(2 * cells), output(c.shape.queries * kWidth);
    Attend(c.shape, c.Input(), c.Dropout(), {probabilities, scratch, {output.data(), kWidth}});
    std::vector<float> above(output.size());
    for (std::size_t i = 0; i < above.size(); ++i) above[i] = static_cast<float>(i % 7) - 3;
    std::vector<float> query(c.query.size()), key(c.key.size()), value(c.value.size());
    AttendBackward(c.shape, c.Input(), c.Dropout(),
                   {.probabilities = probabilities,
                    .scratch = scratch,
                    .output_gradient = {above.data(), kWidth},
                    .query = {query.data(), kStep},
                    .key = {key.data(), kStep},
                    .value = {value.data(), kStep}});
    const auto loss = [&] {
      const std::vector<double> values = Define(c);
      double sum = 0;
      for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * double{above[i]};
      return sum;
    };
    const auto compare = [&](std::vector<float>& input, const std::vector<float>& gradient) {
      for (std::size_t i = 0; i < input.size(); ++i) {
        const float before = input[i];
        input[i] = before + 1e-3F;
        const double more = loss();
        input[i] = before - 1e-3F;
        const double less = loss();
        input[i] = before;
        ASSERT_NEAR(gradient[i], (more - less) / 2e-3, 2e-3) << i;
      }
    };
    compare(c.query, query);
    compare(c.key, key);
    compare(c.value, value);
  }
}

}  // namespace
}  // namespace paceline::kernel
