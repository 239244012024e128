#include "fused/geo_copy.h"

#include <utility>

#include "ps/row_optimizer.h"

namespace paceline::fused {

namespace {

// The difference to push; y becomes what the servers have once they have added their share of it.
void TakeDelta(std::span<const float> x, std::span<float> y, std::uint64_t trainers,
               std::span<float> delta) {
  const auto divisor = static_cast<float>(trainers);
  for (std::size_t i = 0; i < x.size(); ++i) {
    delta[i] = x[i] - y[i];
    y[i] += delta[i] / divisor;
  }
}

void TakeOver(std::span<const float> z, std::span<float> x, std::span<float> y) {
  for (std::size_t i = 0; i < z.size(); ++i) {
    x[i] += z[i] - y[i];
    y[i] = z[i];
  }
}

}  // namespace

GeoCopy::GeoCopy(ps::Store& store, const ps::JobSpec& spec, const Options& options)
    : store_(&store), spec_(&spec), options_(options), tables_(spec.tables.size()) {
  std::size_t floats = 0, state = 0;
  for (const ps::DenseTensor& tensor : spec.dense) {
    floats += tensor.rows.floats();
    state += ps::StateFloats(spec.dense_optimizer.kind, tensor.rows.floats());
  }
  dense_.x.resize(floats);
  dense_.state.resize(state);
  rows_.resize(tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const ps::TableOptions& table = spec.tables[t].options;
    tables_[t].dim = table.dim;
    tables_[t].state_floats = ps::StateFloats(table.optimizer.kind, table.dim);
  }
}

Result<GeoCopy> GeoCopy::Begin(ps::Store& store, const ps::JobSpec& spec, const Options& options) {
  GeoCopy copy(store, spec, options);
  for (std::uint32_t table = 0; table < copy.tables_.size(); ++table) {
    PACELINE_TRY(store.PullChanged(options.trainer, table, copy.tables_[table].calls++).status());
  }
  ps::PullRequest request{.trainer = options.trainer};
  request.dense = copy.dense_.x;
  PACELINE_TRY(copy.Pull(request));
  copy.dense_.y = copy.dense_.x;
  return copy;
}

Status GeoCopy::Fetch(const sparse::SparseBatch& batch) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    std::vector<std::int64_t> missing;
    for (const std::int64_t id : batch.ids[t]) {
      if (!table.slots.contains(id)) missing.push_back(id);
    }
    if (!missing.empty()) {
      std::vector<float> values(missing.size() * table.dim);
      ps::PullRequest request{.trainer = options_.trainer};
      request.rows = {{static_cast<std::uint32_t>(t), missing, values}};
      PACELINE_TRY(Pull(request));
      for (const std::int64_t id : missing) table.slots.emplace(id, table.slots.size());
      table.x.insert(table.x.end(), values.begin(), values.end());
      table.y.insert(table.y.end(), values.begin(), values.end());
      table.state.resize(table.slots.size() * table.state_floats);
      table.is_touched.resize(table.slots.size());
    }
  }
  return {};
}

void GeoCopy::Locate(const sparse::SparseBatch& batch, std::size_t t) {
  Table& table = tables_[t];
  table.batch_slots.clear();
  table.pointers.clear();
  for (const std::int64_t id : batch.ids[t]) {
    const std::size_t slot = table.slots.at(id);
    table.batch_slots.push_back(slot);
    table.pointers.push_back(table.x.data() + slot * table.dim);
  }
  table.gradient.resize(table.pointers.size() * table.dim);
}

std::span<const sparse::TableRows> GeoCopy::RowsOf(const sparse::SparseBatch& batch) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Locate(batch, t);
    rows_[t] = {tables_[t].pointers, tables_[t].gradient};
  }
  return rows_;
}

void GeoCopy::Apply(const sparse::SparseBatch& batch, std::span<const float> dense_gradient,
                    float learning_rate) {
  std::size_t begin = 0, state_begin = 0;
  for (const ps::DenseTensor& tensor : spec_->dense) {
    const std::size_t count = tensor.rows.floats();
    const std::size_t state = ps::StateFloats(spec_->dense_optimizer.kind, count);
    ps::ApplyGradient(spec_->OptimizerOf(tensor.kind), learning_rate * tensor.learning_rate_scale,
                      dense_gradient.subspan(begin, count),
                      {std::span(dense_.x).subspan(begin, count),
                       std::span(dense_.state).subspan(state_begin, state)});
    begin += count;
    state_begin += state;
  }
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    const float rate = learning_rate * spec_->tables[t].learning_rate_scale;
    for (std::size_t i = 0; i < table.batch_slots.size(); ++i) {
      const std::size_t slot = table.batch_slots[i];
      ps::ApplyGradient(
          spec_->tables[t].options.optimizer, rate,
          std::span(table.gradient).subspan(i * table.dim, table.dim),
          {std::span(table.x).subspan(slot * table.dim, table.dim),
           std::span(table.state).subspan(slot * table.state_floats, table.state_floats)});
      if (table.is_touched[slot] == 0) table.touched.push_back(batch.ids[t][i]);
      table.is_touched[slot] = 1;
    }
  }
}

Status GeoCopy::Exchange(std::uint64_t number, bool last) {
  PACELINE_TRY(Push(number, last));
  PACELINE_TRY(store_->Flush());  // what is pulled below has it
  for (std::uint32_t table = 0; table < tables_.size(); ++table) PACELINE_TRY(PullRows(table));
  return dense_.x.empty() ? Status() : PullDense();
}

Status GeoCopy::Pull(const ps::PullRequest& request) {
  PACELINE_ASSIGN(const ps::PullAnswer answer, store_->Pull(request));
  if (!answer.pushes.empty()) pushes_ = answer.pushes.front();
  return {};
}

Status GeoCopy::Push(std::uint64_t number, bool last) {
  ps::Push push{.lease = options_.lease,
                .batch = number,
                .last = last,
                .deltas = true,
                .trainers = options_.trainers};
  std::vector<std::vector<float>> deltas(tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    if (table.touched.empty()) continue;
    deltas[t].resize(table.touched.size() * table.dim);
    for (std::size_t i = 0; i < table.touched.size(); ++i) {
      const std::size_t slot = table.slots.at(table.touched[i]);
      TakeDelta(std::span(table.x).subspan(slot * table.dim, table.dim),
                std::span(table.y).subspan(slot * table.dim, table.dim), options_.trainers,
                std::span(deltas[t]).subspan(i * table.dim, table.dim));
      table.is_touched[slot] = 0;
    }
    push.tables.push_back({.table = static_cast<std::uint32_t>(t),
                           .dim = static_cast<std::uint32_t>(table.dim),
                           .ids = table.touched,
                           .values = deltas[t]});
  }
  std::vector<float> dense(dense_.x.size());
  TakeDelta(dense_.x, dense_.y, options_.trainers, dense);
  push.dense = dense;
  Status pushed = store_->Push(push, {});
  for (Table& table : tables_) table.touched.clear();
  return pushed;
}

Status GeoCopy::PullRows(std::uint32_t t) {
  Table& table = tables_[t];
  PACELINE_ASSIGN(const ps::ChangedRows changed,
                  store_->PullChanged(options_.trainer, t, table.calls++));
  if (changed.restarted) return PullAllRows(t);
  for (std::size_t i = 0; i < changed.ids.size(); ++i) {
    const auto found = table.slots.find(changed.ids[i]);
    if (found == table.slots.end()) continue;  // comes when it is touched
    TakeOver(std::span(changed.values).subspan(i * table.dim, table.dim),
             std::span(table.x).subspan(found->second * table.dim, table.dim),
             std::span(table.y).subspan(found->second * table.dim, table.dim));
  }
  return {};
}

// A server no longer knows what changed.
Status GeoCopy::PullAllRows(std::uint32_t t) {
  Table& table = tables_[t];
  if (table.slots.empty()) return {};
  std::vector<std::int64_t> ids(table.slots.size());  // by slot
  for (const auto& [id, slot] : table.slots) ids[slot] = id;
  std::vector<float> values(table.x.size());
  ps::PullRequest request{.trainer = options_.trainer, .touch = ps::Touch::kPeek};
  request.rows = {{t, ids, values}};
  PACELINE_TRY(Pull(request));
  TakeOver(values, table.x, table.y);
  return {};
}

Status GeoCopy::PullDense() {
  std::vector<float> z(dense_.x.size());
  ps::PullRequest request{.trainer = options_.trainer};
  request.dense = z;
  PACELINE_TRY(Pull(request));
  TakeOver(z, dense_.x, dense_.y);
  return {};
}

}  // namespace paceline::fused
