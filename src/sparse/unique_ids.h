#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::sparse {

// Numbers the different ids of a batch in order of first appearance. An open-addressing table that
// is kept between batches: nothing is allocated once it has seen the largest batch.
// Thread-compatible.
class UniqueIds {
 public:
  // Forgets everything; `most` ids at most will be added, equal ones included.
  void Reset(std::size_t most);

  // Fetches what Add() will look at: several at a time, then nobody waits for each.
  void Prefetch(std::int64_t id) const { __builtin_prefetch(&slots_[HomeOf(id)], 1); }

  // The number of this id, which is appended to `ids` when it is new.
  std::uint32_t Add(std::int64_t id, std::vector<std::int64_t>& ids);

 private:
  struct Slot {
    std::int64_t id = 0;
    std::uint32_t number = 0;
    std::uint32_t batch = 0;  // the slot is free unless this is batch_
  };

  // Fibonacci hashing (Knuth, vol. 3, 6.4): neighbouring ids land far apart.
  std::size_t HomeOf(std::int64_t id) const {
    return (static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15ULL) >> shift_;
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  unsigned shift_ = 0;       // 64 - log2 of it
  std::uint32_t batch_ = 0;
};

}  // namespace paceline::sparse
