#include "sparse/simnet_bow.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "data/synthetic_simnet.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::sparse {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

// A few samples written down.
class FewPairs final : public data::SimnetSource {
 public:
  FewPairs(std::uint64_t dictionary, std::vector<data::SimnetSample> samples)
      : dictionary_(dictionary), samples_(std::move(samples)) {}
  std::uint64_t size() const override { return samples_.size(); }
  std::uint64_t dictionary() const override { return dictionary_; }
  Status Read(std::uint64_t index, data::SimnetSample& sample) const override {
    if (samples_[index].query.empty()) return Status::Error(Code::kBadData, "no query");
    sample = samples_[index];
    return {};
  }
  std::string Fingerprint() const override { return "few"; }

 private:
  std::uint64_t dictionary_;
  std::vector<data::SimnetSample> samples_;
};

// All parameters, and the rows and gradients of a batch.
struct Parameters {
  explicit Parameters(const SimnetBow& model) : spec(model.tables()[0]) {
    table.resize(spec.rows * spec.dim);
    std::size_t floats = 0;
    for (const DenseSpec& tensor : model.dense()) floats += tensor.floats();
    dense.resize(floats);
    dense_gradient.resize(floats, 7.0F);  // to be overwritten
  }
  TableRows Rows(const SparseBatch& batch) {
    rows.clear();
    for (const std::int64_t id : batch.ids[0]) {
      rows.push_back(table.data() + static_cast<std::size_t>(id) * spec.dim);
    }
    gradient.assign(rows.size() * spec.dim, 7.0F);
    return {{rows.data(), rows.size()}, gradient};
  }

  TableSpec spec;
  std::vector<float> table, dense, dense_gradient, gradient;
  std::vector<float*> rows;
};

std::unique_ptr<SparseBatch> Prepared(const SimnetBow& model, algo::PositionRange range,
                                      std::unique_ptr<SparseBatch> into = nullptr) {
  auto batch = model.Prepare(range, std::move(into));
  EXPECT_THAT(batch, IsOk());
  return std::move(batch).value();
}

StepLoss Compute(SimnetBow& model, const SparseBatch& batch, float scale, Parameters& parameters) {
  const TableRows rows = parameters.Rows(batch);
  return model.Compute(batch, parameters.dense, scale, parameters.dense_gradient, {&rows, 1});
}

std::vector<FusedModel::Scored> Score(SimnetBow& model, const SparseBatch& batch,
                                      Parameters& parameters) {
  const TableRows rows = parameters.Rows(batch);
  std::vector<FusedModel::Scored> scored;
  model.Score(batch, parameters.dense, {&rows, 1}, scored);
  return scored;
}

TEST(SimnetBow, HasTheParametersOfThePublishedBenchmark) {
  const data::SyntheticSimnet source({.dictionary = kSimnetDictionary});
  const SimnetBow model({}, source);
  ASSERT_EQ(model.tables().size(), 1U);
  std::uint64_t parameters = model.tables()[0].rows * model.tables()[0].dim;
  for (const DenseSpec& tensor : model.dense()) {
    parameters += tensor.floats();
    EXPECT_EQ(tensor.learning_rate_scale, 200);
  }
  EXPECT_EQ(parameters, 185'837'056U);
  EXPECT_EQ(model.tables()[0].learning_rate_scale, 640);
}

TEST(SimnetBow, InitialWeightsAreXaviersAndBiasesZero) {
  const data::SyntheticSimnet source({});
  const SimnetBow model({.embedding = 16, .hidden = 8}, source);
  std::vector<float> values(2 * (16 * 8 + 8), 9.0F), again = values;
  model.InitialiseDense(3, values);
  model.InitialiseDense(3, again);
  EXPECT_EQ(values, again);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool bias = i % (16 * 8 + 8) >= 16 * 8;
    EXPECT_LE(std::abs(values[i]), bias ? 0.0F : 0.5F) << i;  // sqrt(6 / 24)
  }
  EXPECT_NE(values[0], values[16 * 8 + 8]);
}

const std::vector<data::SimnetSample> kSamples{
    {{0, 1}, {1, 2, 2}, {3}}, {{4}, {4, 5}, {6, 0}}, {{2, 2, 5}, {6}, {1, 5, 2}}};

void Fill(std::span<float> values, double phase) {
  double i = 0;
  for (float& value : values) value = static_cast<float>(std::sin(1.3 * i++ + phase) / 2);
}

// The parameters of simnet_bow_reference.py.
Parameters ReferenceParameters(const SimnetBow& model) {
  Parameters parameters(model);
  Fill(parameters.table, 0.1);
  const std::span dense(parameters.dense);
  Fill(dense.subspan(0, 6), 0.2);
  Fill(dense.subspan(6, 2), 0.3);
  Fill(dense.subspan(8, 6), 0.4);
  Fill(dense.subspan(14, 2), 0.5);
  return parameters;
}

// Reference values of PyTorch 1.13.1: see simnet_bow_reference.py beside this file.
TEST(SimnetBow, LossAndGradientsMatchTorch) {
  const FewPairs source(8, kSamples);
  SimnetBow model({.embedding = 3, .hidden = 2, .margin = 0.5F}, source);
  Parameters parameters = ReferenceParameters(model);
  const auto batch = Prepared(model, {.begin = 0, .count = 3});
  const StepLoss loss = Compute(model, *batch, 0.25F, parameters);
  EXPECT_EQ(loss.samples, 3U);
  EXPECT_NEAR(loss.sum, 1.8193614, 1e-6);
  const std::vector<double> table{-0.0048887222,
                                  -0.028405208,
                                  0.034556005,
                                  -0.015928771,
                                  0.010233883,
                                  0.01218548,
                                  -0.033161201,
                                  0.12913507,
                                  -0.089331001,
                                  -0.0038563628,
                                  -0.015896631,
                                  0.022675136,
                                  -0.00062059099,
                                  0.014539337,
                                  0.013776258,
                                  -0.016955057,
                                  0.063796073,
                                  -0.049468707,
                                  -0.013030924,
                                  -0.025059221,
                                  0.044502981,
                                  0,
                                  0,
                                  0};
  for (std::size_t i = 0; i < parameters.gradient.size(); ++i) {
    const auto id = static_cast<std::size_t>(batch->ids[0][i / 3]);
    EXPECT_NEAR(parameters.gradient[i], table[id * 3 + i % 3], 1e-6) << id << " " << i % 3;
  }
  const std::vector<double> dense{0.12045927,   -0.06904728,  0.083706111,  -0.058170084,
                                  -0.086246461, 0.052189663,  -0.20276819,  -0.058577195,
                                  0.1941101,    -0.077110589, 0.0018378142, 0.014200027,
                                  -0.19312698,  0.080579355,  -0.11501448,  -0.10243496};
  ASSERT_EQ(dense.size(), parameters.dense_gradient.size());
  for (std::size_t i = 0; i < dense.size(); ++i) {
    EXPECT_NEAR(parameters.dense_gradient[i], dense[i], 1e-6) << i;
  }
}

TEST(SimnetBow, CosinesMatchTorch) {
  const FewPairs source(8, kSamples);
  SimnetBow model({.embedding = 3, .hidden = 2}, source);
  Parameters parameters = ReferenceParameters(model);
  std::multiset<std::pair<float, float>> expected{}, actual{};
  const std::vector<double> cosines{0.86360478, 0.98070544, 0.95350069,
                                    0.99812508, 0.84052056, 0.99815702};
  const auto rounded = [](double x) { return static_cast<float>(std::round(x * 1e5) / 1e5); };
  const auto scored = Score(model, *Prepared(model, {.begin = 0, .count = 3}), parameters);
  ASSERT_EQ(scored.size(), 6U);
  for (std::size_t i = 0; i < 6; i += 2) {
    expected.emplace(rounded(cosines[i]), rounded(cosines[i + 1]));
    actual.emplace(rounded(scored[i].score), rounded(scored[i + 1].score));
    EXPECT_EQ(scored[i].label, 1);
    EXPECT_EQ(scored[i + 1].label, 0);
  }
  EXPECT_EQ(actual, expected);  // samples come in another order
}

TEST(SimnetBow, GradientsMatchFiniteDifferences) {
  const data::SyntheticSimnet source({.seed = testing::TestSeed(), .dictionary = 30, .topics = 3});
  SimnetBow model({.embedding = 6, .hidden = 5, .margin = 3}, source);  // every hinge is open
  Parameters parameters(model), other(model);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
  for (float& value : parameters.table) value = rng.Normal() / 4;
  for (float& value : parameters.dense) value = rng.Normal() / 2;
  const auto batch = Prepared(model, {.begin = 0, .count = 4});
  constexpr float kScale = 0.5F, kStep = 3e-3F;
  Compute(model, *batch, kScale, parameters);
  const auto slope = [&](float& value) {
    const float before = value;
    value = before + kStep;
    other.table = parameters.table, other.dense = parameters.dense;
    const double above = Compute(model, *batch, 1, other).sum;
    value = before - kStep;
    other.table = parameters.table, other.dense = parameters.dense;
    const double below = Compute(model, *batch, 1, other).sum;
    value = before;
    return double{kScale} * (above - below) / (2 * double{kStep});
  };
  for (std::size_t i = 0; i < parameters.gradient.size(); ++i) {
    EXPECT_NEAR(parameters.gradient[i], slope(parameters.rows[i / 6][i % 6]), 4e-3) << i;
  }
  for (std::size_t i = 0; i < parameters.dense.size(); ++i) {
    EXPECT_NEAR(parameters.dense_gradient[i], slope(parameters.dense[i]), 4e-3) << i;
  }
}

TEST(SimnetBow, TextsWithoutLengthHaveCosineZeroAndNoGradient) {
  const FewPairs source(8, kSamples);
  SimnetBow model({.embedding = 3, .hidden = 2}, source);
  Parameters parameters(model);  // zeros
  const auto batch = Prepared(model, {.begin = 0, .count = 3});
  EXPECT_FLOAT_EQ(static_cast<float>(Compute(model, *batch, 1, parameters).sum), 0.3F);
  for (const float value : parameters.gradient) EXPECT_EQ(value, 0);
  for (const float value : parameters.dense_gradient) EXPECT_EQ(value, 0);
}

TEST(SimnetBow, ABatchIsAFunctionOfItsPositionsAloneAndMayBeEmpty) {
  const data::SyntheticSimnet source({.size = 10, .dictionary = 100, .topics = 5});
  SimnetBow model({.seed = 4, .embedding = 4, .hidden = 4}, source);
  auto used = Prepared(model, {.begin = 50, .count = 3});
  used = Prepared(model, {.begin = 7, .count = 8}, std::move(used));  // crosses epochs
  const auto fresh = Prepared(model, {.begin = 7, .count = 8});
  EXPECT_EQ(used->ids, fresh->ids);
  EXPECT_EQ(static_cast<SimnetBatch&>(*used).words, static_cast<SimnetBatch&>(*fresh).words);
  EXPECT_EQ(static_cast<SimnetBatch&>(*used).ends, static_cast<SimnetBatch&>(*fresh).ends);
  const std::set<std::int64_t> distinct(used->ids[0].begin(), used->ids[0].end());
  EXPECT_EQ(distinct.size(), used->ids[0].size());

  Parameters parameters(model);
  const auto nothing = Prepared(model, {.begin = 7, .count = 0}, std::move(used));
  EXPECT_EQ(Compute(model, *nothing, 1, parameters).sum, 0);
  EXPECT_TRUE(nothing->ids[0].empty());
}

TEST(SimnetBow, AnUnreadableSampleIsAnError) {
  const FewPairs source(8, {{}});
  EXPECT_THAT(SimnetBow({}, source).Prepare({0, 1}, nullptr),
              StatusIs(Code::kBadData, HasSubstr("no query")));
}

TEST(PairOrder, CountsTiesOnBothSidesOfTheRatioAsNeither) {
  using Scored = FusedModel::Scored;
  const std::vector<Scored> scored{{0.5F, 1}, {0.1F, 0}, {0.2F, 1}, {0.2F, 0},
                                   {0.1F, 1}, {0.9F, 0}, {0.3F, 1}, {-1, 0}};
  const PairOrder order = SimnetBow::OrderOf(scored);
  EXPECT_EQ(order.Accuracy(), 0.5);
  EXPECT_EQ(order.Ratio(), 2);
  EXPECT_EQ(SimnetBow::OrderOf({}).Accuracy(), 0);
}

TEST(SimnetBow, OrdersHeldOutTitlesAfterTraining) {
  constexpr std::uint64_t kSteps = 250, kBatch = 64, kHeldOut = 1000;
  const data::SyntheticSimnetOptions options{
      .seed = testing::TestSeed(), .size = kSteps * kBatch, .dictionary = 500, .topics = 10};
  auto held_out_options = options;
  held_out_options.first = options.size;
  held_out_options.size = kHeldOut;
  const data::SyntheticSimnet source(options), held_out(held_out_options);
  SimnetBow model({.embedding = 16, .hidden = 16}, source),
      tester({.embedding = 16, .hidden = 16}, held_out);
  Parameters parameters(model);
  CounterRng rng(1, Purpose::kInit, 0, 0);
  for (float& value : parameters.table) {
    value = (2 * rng.Uniform() - 1) * model.tables()[0].init_range;
  }
  model.InitialiseDense(1, parameters.dense);
  const auto test_batch = Prepared(tester, {.begin = 0, .count = kHeldOut});
  const auto accuracy = [&] {
    return SimnetBow::OrderOf(Score(tester, *test_batch, parameters)).Accuracy();
  };
  const double before = accuracy();
  constexpr float kRate = 1e-2F;  // the benchmark's, 1e-4, is for 40 epochs
  std::unique_ptr<SparseBatch> batch;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    batch = Prepared(model, {.begin = step * kBatch, .count = kBatch}, std::move(batch));
    Compute(model, *batch, 1.0F / kBatch, parameters);
    const float table_rate = kRate * model.tables()[0].learning_rate_scale;
    for (std::size_t i = 0; i < parameters.gradient.size(); ++i) {
      parameters.rows[i / 16][i % 16] -= table_rate * parameters.gradient[i];
    }
    const float dense_rate = kRate * model.dense()[0].learning_rate_scale;
    for (std::size_t i = 0; i < parameters.dense.size(); ++i) {
      parameters.dense[i] -= dense_rate * parameters.dense_gradient[i];
    }
  }
  EXPECT_LT(before, 0.65);
  EXPECT_GT(accuracy(), 0.93);  // one query in 60 has no word of its topic
}

}  // namespace
}  // namespace paceline::sparse
