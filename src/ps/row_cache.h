#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ps/row_store.h"

namespace paceline::ps {

// A bounded number of rows in memory with marks: used since the hand passed, changed since written.
// Chooses who has to leave (CLOCK: Corbató, "A paging experiment with the Multics system", 1968).
// Thread-compatible. Writes nothing: the owner asks for the victim, writes it and erases it.
class RowCache {
 public:
  // At least one row.
  RowCache(std::size_t floats_per_row, std::size_t max_rows);

  // A row that is there counts as used.
  RowStore::RowNumber Find(std::uint64_t hash, std::int64_t id);

  // The row that has to leave before the next Insert(); nothing when there is room.
  std::optional<RowStore::RowNumber> Victim();

  // Needs room, and `id` absent. The content is unspecified; counts as used and unchanged.
  RowStore::RowNumber Insert(std::uint64_t hash, std::int64_t id);
  void Erase(std::uint64_t hash, std::int64_t id);

  void SetChanged(RowStore::RowNumber row) { marks_[row] |= kChanged; }
  void SetWritten(RowStore::RowNumber row) { marks_[row] &= static_cast<std::uint8_t>(~kChanged); }
  bool changed(RowStore::RowNumber row) const { return (marks_[row] & kChanged) != 0; }

  RowStore& rows() { return rows_; }
  const RowStore& rows() const { return rows_; }
  std::size_t MemoryBytes() const { return rows_.MemoryBytes() + marks_.capacity(); }

 private:
  static constexpr std::uint8_t kPresent = 1, kUsed = 2, kChanged = 4;

  const std::size_t max_rows_;
  RowStore rows_;
  std::vector<std::uint8_t> marks_;  // by row number
  std::size_t hand_ = 0;
};

}  // namespace paceline::ps
