#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "algo/reduction_tree.h"
#include "base/ids.h"

namespace paceline::algo {

// A range of elements.
struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

// Piece `index` of `count` elements cut into `pieces` of nearly equal size, in order. Cuts lie on
// multiples of 16 elements where the pieces are large enough (a cache line of floats).
Slice SliceOf(std::size_t count, std::size_t pieces, std::size_t index);

// Which virtual shards each rank of a view owns: rank r has [begin(r), end(r)), in order.
class ShardLayout {
 public:
  // Ranges of nearly equal size; needs shards >= world >= 1.
  static ShardLayout Even(std::uint64_t shards, std::uint64_t world);

  std::uint64_t shards() const { return begins_.back(); }
  std::uint64_t world() const { return begins_.size() - 1; }
  ShardId begin(Rank rank) const { return ShardId(begins_[rank.value()]); }
  ShardId end(Rank rank) const { return ShardId(begins_[rank.value() + 1]); }

  // What this rank can add up alone, largest subtrees first to last: the parts that it brings to
  // an all-reduce.
  std::vector<TreeNode> NodesOf(Rank rank) const;

  // The same for several neighbouring ranks together, [first, last].
  std::vector<TreeNode> NodesOf(Rank first, Rank last) const;

  friend bool operator==(const ShardLayout&, const ShardLayout&) = default;

 private:
  explicit ShardLayout(std::vector<std::uint64_t> begins) : begins_(std::move(begins)) {}

  std::vector<std::uint64_t> begins_;  // world + 1 entries
};

}  // namespace paceline::algo
