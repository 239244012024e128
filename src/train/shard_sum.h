#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algo/reduction_tree.h"

namespace paceline::train {

// Adds the contributions of virtual shards 0, 1, 2 ... in the order of the fixed tree, as they
// arrive, with about log2(V) buffers. Thread-compatible.
class ShardSum {
 public:
  ShardSum(std::uint64_t shards, std::size_t elements);

  // Memory for the next shard's contribution; undefined content. Write all of it, then Commit().
  std::span<float> NextLeaf();
  // The leaf is complete: adds what can be added.
  void Commit();

  // The sum, once all shards were committed. Start() begins the next step.
  std::span<float> Total();
  void Start();

 private:
  std::vector<algo::TreeOp> plan_;
  std::vector<std::vector<float>> slots_;
  std::size_t next_ = 0;
};

}  // namespace paceline::train
