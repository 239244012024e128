#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "algo/table_row.h"
#include "base/status.h"
#include "ps/table.h"

namespace paceline::ps {

// What the floats of a stored row mean: its values, the optimiser's state, and, if the table
// remembers it, the bits of the tick of the last touch. Immutable. Does not know where rows lie.
class RowFormat {
 public:
  explicit RowFormat(const TableOptions& options);

  std::size_t dim() const { return dim_; }
  std::size_t floats() const { return floats_; }
  bool remembers_touch() const { return remembers_touch_; }

  // kInvalidArgument when rows do not say when they were touched.
  Status CheckRemembersTouch() const;

  // What a table answers for an id without a row.
  void InitialValues(std::int64_t id, std::span<float> values) const {
    algo::InitialRow(source_, id, init_range_, values);
  }
  // A new row that was never touched.
  void Initialise(std::int64_t id, float* row) const;

  std::span<float> Values(float* row) const { return {row, dim_}; }
  void Apply(float learning_rate, std::span<const float> gradient, float* row) const;
  void Add(std::span<const float> delta, float* row) const;
  void SetTick(std::uint32_t tick, float* row) const;
  std::uint32_t Tick(const float* row) const;

  // To and from what snapshots see.
  TableRow View(std::int64_t id, const float* row) const;
  Status CheckRow(const TableRow& row) const;
  void Assign(const TableRow& from, float* row) const;

  bool AdmittedByChance(std::int64_t id, double probability) const {
    return algo::AdmittedByChance(source_, id, probability);
  }

  // kInvalidArgument unless there are `dim` floats for each of `ids`.
  Status CheckLength(std::size_t ids, std::size_t floats) const;

 private:
  const std::string name_;
  const std::size_t dim_;
  const std::size_t state_floats_;
  const bool remembers_touch_;
  const std::size_t floats_;
  const float init_range_;
  const algo::TableSource source_;
  const RowOptimizerOptions optimizer_;
};

}  // namespace paceline::ps
