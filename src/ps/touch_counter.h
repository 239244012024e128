#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ps/row_store.h"

namespace paceline::ps {

// An id that was touched, but not often enough for a row.
struct WaitingId {
  std::int64_t id = 0;
  std::uint32_t tick = 0;  // of the last touch
  std::uint32_t touches = 0;

  friend bool operator==(const WaitingId&, const WaitingId&) = default;
};

// Counts touches of ids that a table does not store yet, in about 24 bytes an id. What it says of
// an id depends on the touches of that id alone: not on other ids, and so not on which server
// counts which of them. Thread-compatible.
class TouchCounter {
 public:
  TouchCounter();

  // Counts one touch; true, and forgotten, with touch number `enough`. With RowStore::kMaxRows
  // ids waiting no further one is counted.
  bool Touch(std::int64_t id, std::uint32_t tick, std::uint32_t enough);

  // Forgets every id whose last touch has a tick below `tick`.
  void ForgetUntouchedSince(std::uint32_t tick);

  void Restore(const WaitingId& waiting);
  void AppendTo(std::vector<WaitingId>& all) const;

  std::size_t size() const { return counts_.size(); }
  std::size_t MemoryBytes() const { return counts_.MemoryBytes(); }

 private:
  RowStore counts_;  // a row is the bits of tick and touches
};

}  // namespace paceline::ps
