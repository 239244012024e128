#include "sparse/local_training_test_util.h"

#include <sys/mman.h>

#include <algorithm>

#include "algo/metrics.h"
#include "base/check.h"
#include "base/rng.h"

namespace paceline::sparse {

namespace {

constexpr std::uint64_t kScoreBatch = 500;
constexpr std::size_t kRowsAhead = 16;  // of a table, that are fetched before they are changed

std::size_t DenseFloats(const FusedModel& model) {
  std::size_t floats = 0;
  for (const DenseSpec& spec : model.dense()) floats += spec.floats();
  return floats;
}

// Rows are touched at random; with huge pages the step is 3 to 5 % shorter. Zeros.
LineVector<float> HugeVector(std::size_t floats) {
  constexpr std::uintptr_t kPage = 4096;
  LineVector<float> values;
  values.reserve(floats);  // asked for before the first touch
  const auto begin = (reinterpret_cast<std::uintptr_t>(values.data()) + kPage - 1) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(values.data() + floats) / kPage * kPage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  values.resize(floats);
  return values;
}

}  // namespace

LocalTraining::LocalTraining(FusedModel& model, const Options& options)
    : model_(model),
      options_(options),
      planes_(options.optimizer == Optimizer::kAdam ? 2 : 1),
      dense_(HugeVector(DenseFloats(model))),
      dense_gradient_(HugeVector(dense_.size())),
      dense_state_(HugeVector(planes_ * dense_.size())) {
  model.InitialiseDense(options.seed, dense_);
  for (std::size_t t = 0; t < model.tables().size(); ++t) {
    const TableSpec& spec = model.tables()[t];
    Table& table = tables_.emplace_back();
    table.dim = spec.dim;
    table.row_floats = (1 + planes_) * spec.dim;
    table.rows = HugeVector(spec.rows * table.row_floats);
    // Cheaper than a generator for each row, and as good for learning.
    CounterRng rng(options.seed, Purpose::kInit, 1000 + t, 0);
    for (std::uint64_t row = 0; row < spec.rows; ++row) {
      float* values = table.rows.data() + row * table.row_floats;
      for (std::size_t i = 0; i < spec.dim; ++i) {
        values[i] = spec.init_range * (2 * rng.Uniform() - 1);
      }
    }
  }
}

std::vector<TableRows> LocalTraining::Locate(const SparseBatch& batch) {
  std::vector<TableRows> located;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    table.values.clear();
    for (const std::int64_t id : batch.ids[t]) {
      const float* row = table.rows.data() + static_cast<std::size_t>(id) * table.row_floats;
      __builtin_prefetch(row);
      __builtin_prefetch(row + table.row_floats - 1);
      table.values.push_back(row);
    }
    table.gradient.resize(batch.ids[t].size() * table.dim);
    located.push_back({table.values, table.gradient});
  }
  return located;
}

void LocalTraining::Apply(std::span<float> values, std::span<const float> gradient,
                          float* state) const {
  const float rate = options_.learning_rate;
  const std::size_t count = values.size();
  if (options_.optimizer == Optimizer::kAdam) {
    kernel::AdamStep({.learning_rate = rate}, adam_factors_, values, gradient, {state, count},
                     {state + count, count});
  } else {
    kernel::AdagradStep({.learning_rate = rate}, values, gradient, {state, count});
  }
}

void LocalTraining::Update(const SparseBatch& batch) {
  adam_factors_ = kernel::AdamFactorsAt({.learning_rate = options_.learning_rate}, ++steps_);
  Apply(dense_, dense_gradient_, dense_state_.data());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    const std::vector<std::int64_t>& ids = batch.ids[t];
    const auto row_of = [&](std::int64_t id) {
      return table.rows.data() + static_cast<std::size_t>(id) * table.row_floats;
    };
    for (std::size_t i = 0; i < ids.size(); ++i) {
      // The passes have pushed out of the near caches what Locate() fetched.
      if (i + kRowsAhead < ids.size()) {
        float* later = row_of(ids[i + kRowsAhead]);
        __builtin_prefetch(later, 1);
        __builtin_prefetch(later + table.row_floats - 1, 1);
      }
      float* row = row_of(ids[i]);
      Apply({row, table.dim}, {&table.gradient[i * table.dim], table.dim}, row + table.dim);
    }
  }
}

StepLoss LocalTraining::Step(const algo::PositionRange& positions) {
  auto prepared = model_.Prepare(positions, std::move(batch_));
  PACELINE_CHECK(prepared.ok(), prepared.status().message().c_str());
  batch_ = std::move(*prepared);
  const std::vector<TableRows> rows = Locate(*batch_);
  const StepLoss loss = model_.Compute(*batch_, dense_, options_.scale, dense_gradient_, rows);
  Update(*batch_);
  return loss;
}

double LocalTraining::HeldOutAuc(FusedModel& held_out, std::uint64_t samples) {
  std::vector<FusedModel::Scored> scored;
  for (std::uint64_t done = 0; done < samples; done += kScoreBatch) {
    auto batch = held_out.Prepare({done, std::min(kScoreBatch, samples - done)}, nullptr);
    PACELINE_CHECK(batch.ok(), batch.status().message().c_str());
    held_out.Score(**batch, dense_, Locate(**batch), scored);
  }
  std::vector<float> scores;
  std::vector<std::uint8_t> labels;
  for (const FusedModel::Scored& one : scored) {
    scores.push_back(one.score);
    labels.push_back(one.label > 0.5F ? 1 : 0);
  }
  return algo::ExactAuc(scores, labels).value_or(0);
}

}  // namespace paceline::sparse
