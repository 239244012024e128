#include "ps/old_rows.h"

namespace paceline::ps {

OldRows::OldRows(const RowStore& store, std::size_t floats_per_row)
    : floats_per_row_(floats_per_row), end_(store.record_count()) {}

void OldRows::BeforeChange(const RowStore& store, RowStore::RowNumber row) {
  if (row >= end_ || !known_.try_emplace(row, ids_.size()).second) return;
  ids_.push_back(store.IdOf(row));
  floats_.insert(floats_.end(), store.Floats(row), store.Floats(row) + floats_per_row_);
}

void OldRows::Inserted(RowStore::RowNumber row) {
  if (row < end_) known_.try_emplace(row, kWasNotThere);
}

void OldRows::ForEach(const RowStore& store, const Visitor& visit) const {
  for (const RowStore::RowNumber row : store.Rows()) {
    if (row < end_ && !known_.contains(row)) visit(store.IdOf(row), store.Floats(row));
  }
  for (std::size_t i = 0; i < ids_.size(); ++i) visit(ids_[i], &floats_[i * floats_per_row_]);
}

std::size_t OldRows::MemoryBytes() const {
  constexpr std::size_t kNode = 4 * sizeof(void*);  // of the map, with its bucket
  return known_.size() * kNode + ids_.capacity() * sizeof(ids_[0]) +
         floats_.capacity() * sizeof(float);
}

}  // namespace paceline::ps
