#include "ps/row_format.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "algo/table_partition.h"

namespace paceline::ps {

RowFormat::RowFormat(const TableOptions& options)
    : name_(options.name),
      dim_(options.dim),
      state_floats_(StateFloats(options.optimizer.kind, options.dim)),
      remembers_touch_(options.evict_after > 0),
      floats_(dim_ + state_floats_ + (remembers_touch_ ? 1 : 0)),
      init_range_(options.init_range),
      source_{.seed = options.seed, .key = algo::TableKey(options.name)},
      optimizer_(options.optimizer) {}

void RowFormat::Initialise(std::int64_t id, float* row) const {
  InitialValues(id, Values(row));
  std::fill(row + dim_, row + floats_, 0.0F);  // tick 0 has the bits of 0.0 too
}

void RowFormat::Apply(float learning_rate, std::span<const float> gradient, float* row) const {
  ApplyGradient(optimizer_, learning_rate, gradient,
                {.values = Values(row), .state = {row + dim_, state_floats_}});
}

void RowFormat::Add(std::span<const float> delta, float* row) const {
  for (std::size_t i = 0; i < dim_; ++i) row[i] += delta[i];
}

void RowFormat::SetTick(std::uint32_t tick, float* row) const {
  if (remembers_touch_) std::memcpy(row + floats_ - 1, &tick, sizeof(tick));
}

std::uint32_t RowFormat::Tick(const float* row) const {
  std::uint32_t tick = 0;
  if (remembers_touch_) std::memcpy(&tick, row + floats_ - 1, sizeof(tick));
  return tick;
}

Status RowFormat::CheckRemembersTouch() const {
  if (remembers_touch_) return {};
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("table '{}' does not remember when rows were touched", name_));
}

TableRow RowFormat::View(std::int64_t id, const float* row) const {
  return {.id = id, .tick = Tick(row), .values = {row, dim_}, .state = {row + dim_, state_floats_}};
}

Status RowFormat::CheckRow(const TableRow& row) const {
  if (row.values.size() == dim_ && row.state.size() == state_floats_) return {};
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("table '{}': a row of {} values and {} floats of state; it has {} and {}", name_,
                  row.values.size(), row.state.size(), dim_, state_floats_));
}

void RowFormat::Assign(const TableRow& from, float* row) const {
  std::ranges::copy(from.values, row);
  std::ranges::copy(from.state, row + dim_);
  SetTick(from.tick, row);
}

Status RowFormat::CheckLength(std::size_t ids, std::size_t floats) const {
  if (floats == ids * dim_) return {};
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("table '{}': {} floats for {} rows of {}", name_, floats, ids, dim_));
}

}  // namespace paceline::ps
