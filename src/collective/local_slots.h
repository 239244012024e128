#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "collective/local_group.h"
#include "collective/tree_sum.h"

namespace paceline::collective {

// A part that one local rank brings to a sum.
struct PartOfRank {
  std::size_t rank = 0;  // local
  std::size_t part = 0;
};

// Operations of one host on memory that is not shared: data passes through two slots in each rank's
// region, piece by piece. Two, so that a rank can fill one while slow ranks still read the other.
// One barrier a piece, so this is also the quickest way for small data. Thread-compatible.
class LocalSlots {
 public:
  // The slots start at `offset` of each rank's region. Borrows the group.
  LocalSlots(LocalGroup& group, std::size_t offset, std::size_t slot_bytes)
      : group_(group), offset_(offset), slot_bytes_(slot_bytes) {}

  using Deadline = std::chrono::steady_clock::time_point;

  // Every rank puts its parts into its slot and adds all of them itself. `sources` are the parts of
  // all ranks, in the order of `sum`.
  Status Reduce(std::span<float* const> parts, std::size_t count,
                std::span<const PartOfRank> sources, TreeSum& sum, Deadline deadline);
  Status AllGather(std::span<std::byte> blocks, Deadline deadline);
  Status Broadcast(std::span<std::byte> bytes, std::size_t root, Deadline deadline);
  Status Barrier(Deadline deadline);

 private:
  std::byte* Slot(std::size_t rank) const;
  // Publishes, waits for all, and checks that all do the same.
  Status Meet(const LocalOperation& operation, Deadline deadline);

  LocalGroup& group_;
  std::size_t offset_, slot_bytes_;
  std::uint64_t used_ = 0;
};

}  // namespace paceline::collective
