#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::ps {

// Counts touches of ids that a table does not store yet, in memory that never grows. When more ids
// come than there is room for, those with the fewest touches are forgotten and begin again, so an
// id may be admitted late and never early. Thread-compatible. A function of the order of touches
// alone.
class TouchCounter {
 public:
  // Room for at least this many ids; 0 keeps none.
  explicit TouchCounter(std::size_t ids);

  // Counts one touch; true, and forgotten, with touch number `enough` (1 .. 255).
  bool Touch(std::uint64_t hash, std::uint32_t enough);

  std::size_t MemoryBytes() const { return sets_.size() * sizeof(Set); }

 private:
  // 56 bits of the hash, then the count; 0 is free. A cache line a set.
  using Entry = std::uint64_t;
  struct alignas(64) Set {
    std::array<Entry, 8> entries{};
  };
  static constexpr std::uint64_t kCountMask = 0xFF;

  static void Replace(Set& set, Entry entry);

  std::vector<Set> sets_;
};

}  // namespace paceline::ps
