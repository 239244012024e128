#include "sparse/ctr_dnn.h"

#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algo/batch_plan.h"
#include "data/synthetic_ctr.h"
#include "sparse/local_training_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::sparse {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

// Numbers that ctr_dnn_reference.py makes too: multiples of 1/1009 in [-0.5, 0.5), times scale.
float Pattern(std::size_t k, std::size_t salt, double scale) {
  return static_cast<float>((static_cast<double>((k * 7919 + salt * 101) % 1009) / 1009 - 0.5) *
                            scale);
}

std::vector<float> Patterns(std::size_t count, std::size_t salt, double scale) {
  std::vector<float> values(count);
  for (std::size_t k = 0; k < count; ++k) values[k] = Pattern(k, salt, scale);
  return values;
}

// Samples given by formula; `readable` can make all of them fail.
class FewSamples final : public data::CtrDataset {
 public:
  explicit FewSamples(std::uint64_t size, bool readable = true)
      : size_(size), readable_(readable) {}
  std::uint64_t size() const override { return size_; }
  std::uint32_t ids() const override { return 40; }
  Status Read(std::uint64_t index, data::CtrSample& sample) const override {
    if (!readable_) return Status::Error(Code::kBadData, "a broken disk");
    for (std::size_t i = 0; i < data::kCtrDense; ++i) {
      sample.dense[i] = Pattern(index * data::kCtrDense + i, 5, 1);
    }
    for (std::size_t slot = 0; slot < data::kCtrSlots; ++slot) {
      sample.ids[slot] = static_cast<std::uint32_t>((index * index * 7 + slot * 3) % 40);
    }
    sample.label = index % 2;
    return {};
  }
  std::string Fingerprint() const override { return "few"; }

 private:
  std::uint64_t size_;
  bool readable_;
};

constexpr CtrDnnShape kTiny{.rows = 40, .dim = 3, .width = 8, .hidden_layers = 3};

std::unique_ptr<CtrDnn> Tiny(std::uint64_t samples) {
  auto model = CtrDnn::Create({.shape = kTiny}, std::make_shared<FewSamples>(samples));
  EXPECT_THAT(model, IsOk());
  return std::move(*model);
}

std::uint64_t DenseCount(const FusedModel& model) {
  std::uint64_t count = 0;
  for (const DenseSpec& spec : model.dense()) count += spec.floats();
  return count;
}

TEST(CtrDnn, HasTheParametersOfTheReference) {
  const auto shape = FindCtrDnnShape("ctr-dnn");
  ASSERT_THAT(shape, IsOk());
  const auto model = CtrDnn::Create(
      {.shape = *shape}, std::make_shared<data::SyntheticCtr>(data::SyntheticCtrOptions{}));
  ASSERT_THAT(model, IsOk());
  ASSERT_EQ((*model)->tables().size(), 1U);
  const TableSpec& table = (*model)->tables()[0];
  EXPECT_EQ(table.rows * table.dim, 10'000'010U);
  EXPECT_EQ(DenseCount(**model), 431'202U);
  EXPECT_EQ(table.rows * table.dim + DenseCount(**model), 10'431'212U);
}

TEST(CtrDnn, UnknownNamesAndTooSmallTablesAreRefused) {
  EXPECT_THAT(FindCtrDnnShape("ctr"), StatusIs(Code::kNotFound, HasSubstr("ctr-dnn-small")));
  EXPECT_THAT(CtrDnn::Create({.shape = {.rows = 39}}, std::make_shared<FewSamples>(5)),
              StatusIs(Code::kMismatch, HasSubstr("40 ids")));
  EXPECT_THAT(CtrDnn::Create({.shape = kTiny}, std::make_shared<FewSamples>(0)),
              StatusIs(Code::kBadData, HasSubstr("no samples")));
}

TEST(CtrDnn, InitialWeightsHaveTheVarianceOfTheReference) {
  const auto model = Tiny(1);
  std::vector<float> dense(DenseCount(*model), 9.0F), again(dense.size());
  model->InitialiseDense(3, dense);
  model->InitialiseDense(3, again);
  EXPECT_EQ(dense, again);
  const std::size_t inputs = data::kCtrSlots * 3 + data::kCtrDense, weights = inputs * 8;
  double squares = 0;
  for (std::size_t i = 0; i < weights; ++i) squares += double{dense[i]} * dense[i];
  EXPECT_NEAR(squares / static_cast<double>(weights), 1.0 / inputs, 0.2 / inputs);
  const std::vector<float> bias(dense.begin() + static_cast<std::ptrdiff_t>(weights),
                                dense.begin() + static_cast<std::ptrdiff_t>(weights) + 8);
  EXPECT_THAT(bias, Each(0.0F));
  model->InitialiseDense(4, again);
  EXPECT_NE(dense, again);
}

TEST(CtrDnn, PreparesTheSamplesThatThePlanSays) {
  constexpr std::uint64_t kSize = 7;
  auto model =
      CtrDnn::Create({.shape = kTiny, .order_seed = 5}, std::make_shared<FewSamples>(kSize));
  ASSERT_THAT(model, IsOk());
  const algo::BatchPlan plan{.seed = 5, .dataset_size = kSize};
  std::unique_ptr<SparseBatch> batch;
  // None, one, a whole epoch, and several epochs in one batch; the same memory each time.
  for (const algo::PositionRange& range :
       {algo::PositionRange{3, 0}, {6, 1}, {0, 7}, {5, 20}, {2, 3}}) {
    auto prepared = (*model)->Prepare(range, std::move(batch));
    ASSERT_THAT(prepared, IsOk());
    batch = std::move(*prepared);
    const auto& clicks = dynamic_cast<const CtrBatch&>(*batch);
    ASSERT_EQ(clicks.samples, range.count);
    ASSERT_EQ(clicks.rows.size(), range.count * data::kCtrSlots);
    for (std::uint64_t i = 0; i < range.count; ++i) {
      data::CtrSample sample;
      ASSERT_THAT(FewSamples(kSize).Read(plan.SampleAt(range.begin + i), sample), IsOk());
      EXPECT_EQ(clicks.labels[i], sample.label);
      EXPECT_EQ(clicks.dense[i * data::kCtrDense], sample.dense[0]);
      for (std::size_t slot = 0; slot < data::kCtrSlots; ++slot) {
        EXPECT_EQ(clicks.ids[0][clicks.rows[i * data::kCtrSlots + slot]], sample.ids[slot]);
      }
    }
    std::map<std::int64_t, int> counts;
    for (std::int64_t id : clicks.ids[0]) EXPECT_EQ(++counts[id], 1);
  }
}

TEST(CtrDnn, AFailureToReadIsReturned) {
  const auto model =
      CtrDnn::Create({.shape = kTiny}, std::make_shared<FewSamples>(5, /*readable=*/false));
  ASSERT_THAT(model, IsOk());
  EXPECT_THAT((*model)->Prepare({0, 3}, nullptr),
              StatusIs(Code::kBadData, HasSubstr("a broken disk")));
}

// One batch of the tiny model with the parameters of ctr_dnn_reference.py.
struct Reference {
  static constexpr std::uint64_t kSamples = 5;
  std::unique_ptr<CtrDnn> model = Tiny(kSamples);
  std::vector<float> table = Patterns(40 * 3, 1, 2);
  std::vector<float> dense, dense_gradient, row_gradient;
  std::unique_ptr<SparseBatch> batch;
  std::vector<const float*> values;

  Reference() {
    for (std::size_t i = 0; i < model->dense().size(); ++i) {
      const auto tensor = Patterns(model->dense()[i].floats(), (i % 2 == 0 ? 10 : 20) + i / 2,
                                   i % 2 == 0 ? 1.0 : 0.5);
      dense.insert(dense.end(), tensor.begin(), tensor.end());
    }
    auto prepared = model->Prepare({0, kSamples}, nullptr);
    EXPECT_THAT(prepared, IsOk());
    batch = std::move(*prepared);
    for (std::int64_t id : batch->ids[0])
      values.push_back(&table[static_cast<std::size_t>(id) * 3]);
    // What was there before does not show.
    dense_gradient.assign(dense.size(), 9);
    row_gradient.assign(values.size() * 3, 9);
  }
  std::vector<TableRows> Rows() { return {{values, row_gradient}}; }
};

struct Summary {
  double weighted_sum, norm, first, last;
};
void ExpectSummary(std::span<const float> gradient, const Summary& expected,
                   const std::string& what) {
  double sum = 0, squares = 0;
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    sum += double{gradient[k]} * Pattern(k, 77, 1);
    squares += double{gradient[k]} * gradient[k];
  }
  EXPECT_NEAR(sum, expected.weighted_sum, 1e-6) << what;
  EXPECT_NEAR(std::sqrt(squares), expected.norm, 1e-6) << what;
  EXPECT_NEAR(gradient.front(), expected.first, 1e-6) << what;
  EXPECT_NEAR(gradient.back(), expected.last, 1e-6) << what;
}

// Values of PyTorch 1.13.1: see ctr_dnn_reference.py beside this file.
TEST(CtrDnn, LossAndGradientsMatchTorch) {
  Reference reference;
  const StepLoss loss = reference.model->Compute(*reference.batch, reference.dense, 0.5F,
                                                 reference.dense_gradient, reference.Rows());
  EXPECT_NEAR(loss.sum, 3.4573555, 1e-5);
  EXPECT_EQ(loss.samples, 5U);

  ASSERT_EQ(reference.values.size(), 40U);
  std::vector<float> table_gradient(reference.table.size());
  for (std::size_t i = 0; i < reference.values.size(); ++i) {
    std::copy_n(&reference.row_gradient[i * 3], 3,
                &table_gradient[static_cast<std::size_t>(reference.batch->ids[0][i]) * 3]);
  }
  ExpectSummary(table_gradient, {-0.038397103, 0.18130155, 0.041909825, -0.0050511393}, "table");
  const std::vector<Summary> expected{
      {-0.052045719, 0.40803703, 0.019279571, 0.0016741792},
      {0.0071182304, 0.04889664, -0.024105437, 0.0088966964},
      {0.037019263, 0.1805096, 0, -0.0009372608},
      {-0.03205393, 0.068139727, -0.0064742947, 0.024799498},
      {-0.045356717, 0.17460241, -0.0029874549, 0.0055489577},
      {-0.068197197, 0.2188255, 0.022585627, 0.022585612},
      {-0.052615361, 0.16457161, -0.02653244, 0.033847377},
      {-0.015573498, 0.14524502, -0.10270369, 0.10270378},
  };
  std::size_t offset = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const DenseSpec& spec = reference.model->dense()[i];
    ExpectSummary(std::span(reference.dense_gradient).subspan(offset, spec.floats()), expected[i],
                  spec.name);
    offset += spec.floats();
  }
}

TEST(CtrDnn, ScoresMatchTorch) {
  Reference reference;
  std::vector<FusedModel::Scored> scored;
  reference.model->Score(*reference.batch, reference.dense, reference.Rows(), scored);
  const std::vector<double> expected{0.44065925, 0.44496429, 0.50330174, 0.42140257, 0.39507964};
  ASSERT_EQ(scored.size(), expected.size());
  // The batch is shuffled; sample 0, 1, ... of the data is where the order says.
  const algo::BatchPlan plan{.seed = 0, .dataset_size = 5};
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::uint64_t sample = plan.SampleAt(i);
    EXPECT_NEAR(scored[i].score, expected[sample], 1e-6);
    EXPECT_EQ(scored[i].label, static_cast<float>(sample % 2));
  }
}

TEST(CtrDnn, AnEmptyBatchHasNoGradient) {
  Reference reference;
  auto batch = reference.model->Prepare({0, 0}, nullptr);
  ASSERT_THAT(batch, IsOk());
  const StepLoss loss = reference.model->Compute(**batch, reference.dense, 1,
                                                 reference.dense_gradient, {{TableRows{}}});
  EXPECT_EQ(loss.sum, 0);
  EXPECT_EQ(loss.samples, 0U);
  EXPECT_THAT(reference.dense_gradient, Each(0.0F));
}

// One pass over 200,000 samples. Best possible 0.833; a perfect model without the interactions of
// slots would get 0.765; measured 0.823.
TEST(CtrDnn, SmallVariantComesCloseToTheBestPossibleAuc) {
  constexpr std::uint64_t kTrain = 200'000, kTest = 10'000, kBatch = 50;
  const auto shape = FindCtrDnnShape("ctr-dnn-small");
  ASSERT_THAT(shape, IsOk());
  const auto make = [&](data::Split split, std::uint64_t size) {
    auto data = std::make_shared<data::SyntheticCtr>(data::SyntheticCtrOptions{
        .seed = 1, .size = size, .split = split, .ids = data::kSyntheticCtrFewIds});
    return std::pair(data, CtrDnn::Create({.shape = *shape}, data).value());
  };
  const auto [train_data, train] = make(data::Split::kTrain, kTrain);
  const auto [test_data, test] = make(data::Split::kTest, kTest);
  LocalTraining training(*train, {.learning_rate = 0.05F});
  const double before = training.HeldOutAuc(*test, kTest);
  for (std::uint64_t position = 0; position < kTrain; position += kBatch) {
    training.Step({position, kBatch});
  }
  const double best = test_data->BestAuc(kTest), reached = training.HeldOutAuc(*test, kTest);
  RecordProperty("best_auc", std::to_string(best));
  RecordProperty("reached_auc", std::to_string(reached));
  EXPECT_LT(before, 0.6);
  EXPECT_GT(reached, best - 0.02);
  EXPECT_LT(reached, best + 0.02);
}

}  // namespace
}  // namespace paceline::sparse
