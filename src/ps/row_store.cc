#include "ps/row_store.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace paceline::ps {
namespace {

// A chunk is half empty on average; with one at the end of each of a table's stripes this is small
// beside a million rows, and large enough that chunks cost nothing themselves.
constexpr std::size_t kChunkBytes = 64 << 10;

constexpr std::size_t kFirstSlots = 16;

// How far ahead of its use a row is fetched while the index is built anew.
constexpr std::size_t kLookAhead = 16;

unsigned ChunkShift(std::size_t record_words) {
  const std::size_t rows = std::max<std::size_t>(kChunkBytes / (record_words * sizeof(float)), 1);
  return static_cast<unsigned>(std::bit_width(rows) - 1);
}

}  // namespace

RowStore::RowStore(std::size_t floats_per_row)
    : record_words_(kIdWords + floats_per_row),
      chunk_shift_(ChunkShift(record_words_)),
      chunk_mask_((1U << chunk_shift_) - 1) {}

std::size_t RowStore::SlotOf(std::uint64_t hash, std::int64_t id) const {
  for (std::size_t at = HomeOf(hash); slots_[at] != kEmpty; at = After(at)) {
    if (SameTag(hash, slots_[at]) && IdOf(RowIn(slots_[at])) == id) return at;
  }
  return slots_.size();
}

RowStore::RowNumber RowStore::Find(std::uint64_t hash, std::int64_t id) const {
  if (size_ == 0) return kNoRow;
  const std::size_t at = SlotOf(hash, id);
  return at == slots_.size() ? kNoRow : RowIn(slots_[at]);
}

RowStore::RowNumber RowStore::Insert(std::uint64_t hash, std::int64_t id) {
  // Beyond four fifths the search for an absent id gets long.
  if (5 * (size_ + 1) > 4 * slots_.size()) GrowIndex();
  const RowNumber row = TakeRecord();
  if (row == kNoRow) return kNoRow;
  std::memcpy(RecordOf(row), &id, sizeof(id));
  PutIntoIndex(hash, row);
  ++size_;
  return row;
}

bool RowStore::Erase(std::uint64_t hash, std::int64_t id) {
  if (size_ == 0) return false;
  const std::size_t at = SlotOf(hash, id);
  if (at == slots_.size()) return false;
  const RowNumber row = RowIn(slots_[at]);
  std::memcpy(RecordOf(row), &free_record_, sizeof(free_record_));
  free_record_ = row;
  CloseGap(at);
  --size_;
  ++erasures_;
  return true;
}

// Moves later rows of the run up, so that no search ends at the gap before its row. A row may move
// to the gap unless its home lies behind it: Knuth, The Art of Computer Programming 3, 6.4 R.
void RowStore::CloseGap(std::size_t gap) {
  const std::size_t count = slots_.size();
  for (std::size_t at = After(gap); slots_[at] != kEmpty; at = After(at)) {
    const std::size_t home = HomeOf(HashId(IdOf(RowIn(slots_[at]))));
    const std::size_t from_home = (at + count - home) % count;
    const std::size_t from_gap = (at + count - gap) % count;
    if (from_home < from_gap) continue;
    slots_[gap] = slots_[at];
    gap = at;
  }
  slots_[gap] = kEmpty;
}

RowStore::RowNumber RowStore::TakeRecord() {
  if (free_record_ != kNoRow) {
    const RowNumber row = free_record_;
    std::memcpy(&free_record_, RecordOf(row), sizeof(free_record_));
    return row;
  }
  if (used_records_ == kMaxRows) return kNoRow;
  if ((used_records_ & chunk_mask_) == 0) {
    // Not cleared: pages are taken from the system as rows come.
    chunks_.push_back(
        std::make_unique_for_overwrite<float[]>(record_words_ * (chunk_mask_ + std::size_t{1})));
  }
  return used_records_++;
}

void RowStore::PutIntoIndex(std::uint64_t hash, RowNumber row) {
  std::size_t at = HomeOf(hash);
  while (slots_[at] != kEmpty) at = After(at);
  slots_[at] = SlotFor(hash, row);
}

void RowStore::GrowIndex() {
  const std::vector<std::uint32_t> old = std::exchange(slots_, {});
  slots_.assign(std::max(kFirstSlots, old.size() + old.size() / 2), kEmpty);
  for (std::size_t at = 0; at < old.size(); ++at) {
    if (at + kLookAhead < old.size() && old[at + kLookAhead] != kEmpty) {
      __builtin_prefetch(RecordOf(RowIn(old[at + kLookAhead])));
    }
    if (old[at] == kEmpty) continue;
    PutIntoIndex(HashId(IdOf(RowIn(old[at]))), RowIn(old[at]));
  }
}

void RowStore::PrefetchIndex(std::uint64_t hash) const {
  if (!slots_.empty()) __builtin_prefetch(&slots_[HomeOf(hash)]);
}

void RowStore::PrefetchRow(std::uint64_t hash) const {
  if (slots_.empty()) return;
  for (std::size_t at = HomeOf(hash); slots_[at] != kEmpty; at = After(at)) {
    if (!SameTag(hash, slots_[at])) continue;
    return PrefetchNumber(RowIn(slots_[at]));
  }
}

void RowStore::PrefetchNumber(RowNumber row) const {
  // Even a row of 10 floats often lies on two cache lines.
  const float* record = RecordOf(row);
  __builtin_prefetch(record);
  __builtin_prefetch(record + record_words_ - 1);
}

std::vector<RowStore::RowNumber> RowStore::Rows() const {
  if (size_ == used_records_) {  // nothing is erased
    std::vector<RowNumber> all(size_);
    std::iota(all.begin(), all.end(), RowNumber{0});
    return all;
  }
  std::vector<RowNumber> rows;
  rows.reserve(size_);
  for (const std::uint32_t slot : slots_) {
    if (slot != kEmpty) rows.push_back(RowIn(slot));
  }
  // Slots are in the order of hashes. Whoever inserts rows in that order into a store that grows
  // fills the beginning of its index first, where every search gets longer than the last.
  std::ranges::sort(rows);
  return rows;
}

std::size_t RowStore::MemoryBytes() const {
  const std::size_t chunk_bytes = record_words_ * sizeof(float) << chunk_shift_;
  return chunks_.size() * chunk_bytes + chunks_.capacity() * sizeof(chunks_[0]) +
         slots_.capacity() * sizeof(slots_[0]);
}

}  // namespace paceline::ps
