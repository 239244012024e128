#include "ps/row_cache.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::ps {

RowCache::RowCache(std::size_t floats_per_row, std::size_t max_rows)
    : max_rows_(std::clamp<std::size_t>(max_rows, 1, RowStore::kMaxRows)), rows_(floats_per_row) {}

RowStore::RowNumber RowCache::Find(std::uint64_t hash, std::int64_t id) {
  const RowStore::RowNumber row = rows_.Find(hash, id);
  if (row != RowStore::kNoRow) marks_[row] |= kUsed;
  return row;
}

std::optional<RowStore::RowNumber> RowCache::Victim() {
  if (rows_.size() < max_rows_) return std::nullopt;
  // Ends within two rounds: the first clears every mark of use.
  for (;; ++hand_) {
    if (hand_ >= marks_.size()) hand_ = 0;
    std::uint8_t& marks = marks_[hand_];
    if ((marks & kPresent) == 0) continue;
    if ((marks & kUsed) == 0) return static_cast<RowStore::RowNumber>(hand_);
    marks &= static_cast<std::uint8_t>(~kUsed);
  }
}

RowStore::RowNumber RowCache::Insert(std::uint64_t hash, std::int64_t id) {
  PACELINE_CHECK(rows_.size() < max_rows_, "the victim has to leave first");
  const RowStore::RowNumber row = rows_.Insert(hash, id);
  if (row >= marks_.size()) marks_.resize(row + std::size_t{1});
  marks_[row] = kPresent | kUsed;
  return row;
}

void RowCache::Erase(std::uint64_t hash, std::int64_t id) {
  const RowStore::RowNumber row = rows_.Find(hash, id);
  if (row == RowStore::kNoRow) return;
  rows_.Erase(hash, id);
  marks_[row] = 0;
}

}  // namespace paceline::ps
