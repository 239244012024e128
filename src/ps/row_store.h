#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "algo/table_partition.h"

namespace paceline::ps {

// The hash under which tables look for an id. Not ServerOf()'s: on one server that one has only a
// part of its values.
constexpr std::uint64_t HashId(std::int64_t id) {
  return algo::Mix(static_cast<std::uint64_t>(id) ^ 0x5061636572307773);
}

// Rows of equal length by id. Rows lie in chunks that never move, so growing copies no row and a
// row's address holds until it is erased; the memory of erased rows is used again and returned only
// by the destructor. The index has 4 bytes a slot and grows by half, so that the store costs at
// most 7.5 bytes a row beyond the rows themselves. Thread-compatible. Bits 40 and above of a hash
// are left to the caller, who may split ids over several stores by them.
class RowStore {
 public:
  using RowNumber = std::uint32_t;
  static constexpr RowNumber kNoRow = 0xFFFFFF;
  static constexpr std::size_t kMaxRows = kNoRow;  // a number has 24 bits

  explicit RowStore(std::size_t floats_per_row);

  // `hash` is always HashId(id).
  RowNumber Find(std::uint64_t hash, std::int64_t id) const;

  // Adds a row with unspecified content; `id` must be absent. kNoRow when there are kMaxRows.
  RowNumber Insert(std::uint64_t hash, std::int64_t id);

  // Whether it was there.
  bool Erase(std::uint64_t hash, std::int64_t id);

  float* Floats(RowNumber row) { return RecordOf(row) + kIdWords; }
  const float* Floats(RowNumber row) const { return RecordOf(row) + kIdWords; }
  std::int64_t IdOf(RowNumber row) const {
    std::int64_t id;
    std::memcpy(&id, RecordOf(row), sizeof(id));
    return id;
  }

  // Start fetching what Find() will need: first the index for a handful of ids, then their rows.
  void PrefetchIndex(std::uint64_t hash) const;
  void PrefetchRow(std::uint64_t hash) const;
  // The row alone, for who knows its number.
  void PrefetchNumber(RowNumber row) const;

  // Every row, in the order of their numbers: without erasing, that in which they were inserted.
  std::vector<RowNumber> Rows() const;

  std::size_t size() const { return size_; }
  // As long as it stays the same, so do the numbers of all rows.
  std::uint64_t erasures() const { return erasures_; }
  // Numbers of rows are below it, also of those that were erased.
  RowNumber record_count() const { return used_records_; }
  std::size_t MemoryBytes() const;

 private:
  // A record is its id in two words, then the floats. As words, so that odd lengths need no
  // padding.
  static constexpr std::size_t kIdWords = 2;
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFF;

  // A slot is 8 bits of the hash, so that most foreign rows need not be looked at, and the number.
  static constexpr RowNumber RowIn(std::uint32_t slot) { return slot & 0xFFFFFF; }
  static constexpr std::uint32_t SlotFor(std::uint64_t hash, RowNumber row) {
    return static_cast<std::uint32_t>(hash << 24) | row;
  }
  static constexpr bool SameTag(std::uint64_t hash, std::uint32_t slot) {
    return (static_cast<std::uint32_t>(hash << 24) ^ slot) >> 24 == 0;
  }
  // Scales 32 bits of the hash to the number of slots, which therefore may be any number.
  std::size_t HomeOf(std::uint64_t hash) const {
    return (static_cast<std::uint32_t>(hash >> 8) * std::uint64_t{slots_.size()}) >> 32;
  }
  std::size_t After(std::size_t slot) const { return slot + 1 == slots_.size() ? 0 : slot + 1; }

  float* RecordOf(RowNumber row) const {
    return chunks_[row >> chunk_shift_].get() + (row & chunk_mask_) * record_words_;
  }
  std::size_t SlotOf(std::uint64_t hash, std::int64_t id) const;
  void PutIntoIndex(std::uint64_t hash, RowNumber row);
  void GrowIndex();
  void CloseGap(std::size_t gap);
  RowNumber TakeRecord();

  const std::size_t record_words_;
  const unsigned chunk_shift_;  // log2 of the rows of a chunk
  const std::uint32_t chunk_mask_;
  std::vector<std::unique_ptr<float[]>> chunks_;
  RowNumber used_records_ = 0;      // records that were ever given out
  RowNumber free_record_ = kNoRow;  // erased records form a list through their first word
  std::vector<std::uint32_t> slots_;
  std::size_t size_ = 0;
  std::uint64_t erasures_ = 0;
};

}  // namespace paceline::ps
