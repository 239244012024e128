#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algo/reduction_tree.h"

namespace paceline::train {

// Adds the contributions of virtual shards 0, 1, 2 ... of one subtree in the order of the fixed
// tree, as they arrive, with about log2(V) buffers. Thread-compatible.
class ShardSum {
 public:
  // `total` is where the sum is to be; borrowed. The other buffers are of its length.
  ShardSum(std::uint64_t shards, std::span<float> total);

  // Memory for the next shard's contribution; undefined content. Write all of it, then Commit().
  std::span<float> NextLeaf();
  // The leaf is complete: adds what can be added.
  void Commit();

  // All shards were committed: `total` holds the sum. Start() begins the next step.
  bool Complete() const { return next_ == plan_.size(); }
  void Start() { next_ = 0; }

 private:
  std::span<float> Slot(std::size_t slot) { return slot == 0 ? total_ : slots_[slot - 1]; }

  std::vector<algo::TreeOp> plan_;
  std::span<float> total_;
  std::vector<std::vector<float>> slots_;  // slot 0 is the total
  std::size_t next_ = 0;
};

}  // namespace paceline::train
