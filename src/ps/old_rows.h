#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

#include "ps/row_store.h"

namespace paceline::ps {

// A RowStore as it was at one moment, next to the store as it is: keeps what is about to change.
// Costs memory only for rows that change. Thread-compatible.
class OldRows {
 public:
  OldRows(const RowStore& store, std::size_t floats_per_row);

  // Before a row changes or is erased.
  void BeforeChange(const RowStore& store, RowStore::RowNumber row);
  // A row that was not there at that moment, though its number may have been another's.
  void Inserted(RowStore::RowNumber row);

  // The rows of that moment, each once.
  using Visitor = std::function<void(std::int64_t id, const float* floats)>;
  void ForEach(const RowStore& store, const Visitor& visit) const;

  std::size_t MemoryBytes() const;

 private:
  static constexpr std::size_t kWasNotThere = std::numeric_limits<std::size_t>::max();

  const std::size_t floats_per_row_;
  const std::size_t end_;  // of the numbers that could be in use
  std::unordered_map<RowStore::RowNumber, std::size_t> known_;  // place in `ids_`
  std::vector<std::int64_t> ids_;
  std::vector<float> floats_;
};

}  // namespace paceline::ps
