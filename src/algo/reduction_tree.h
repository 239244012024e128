#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::algo {

// The fixed binary tree over shard numbers [0, V) that decides in which order gradients are
// added. Floating-point addition is not associative; with one tree for the whole job the bits of
// the sum depend neither on the number of workers nor on timing.
//
//   V = 5:        [0,5)          a node splits at begin + the largest power of two
//               [0,4)   4        strictly below its size (the shape of RFC 6962), so the
//            [0,2) [2,4)         shape of a subtree depends on its size only
//            0   1 2   3
struct TreeNode {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
  TreeNode Left() const;   // size() >= 2
  TreeNode Right() const;  // size() >= 2
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

// Post-order walk. `known(node)` says that the node's value exists already (always true for a
// leaf); otherwise both children are walked and `join(left, right)` makes the node's value from
// theirs. Nodes below a known one are not visited.
template <typename Known, typename Join>
void WalkTree(TreeNode node, Known&& known, Join&& join) {
  if (known(node)) return;
  const TreeNode left = node.Left(), right = node.Right();
  WalkTree(left, known, join);
  WalkTree(right, known, join);
  join(left, right);
}

// The largest subtrees of the tree over [0, shards) that fill [begin, end), in order: what the
// owner of these shards can add up alone.
std::vector<TreeNode> Cover(std::uint64_t shards, std::uint64_t begin, std::uint64_t end);

// One step of adding leaves that arrive in order 0, 1, 2 ...
struct TreeOp {
  enum class Kind {
    kLeaf,  // slot[target] = leaf number `source`
    kAdd,   // slot[target] = slot[target] + slot[source]; the source is free afterwards
  };
  Kind kind = Kind::kLeaf;
  std::uint64_t source = 0;
  std::size_t target = 0;
  friend bool operator==(const TreeOp&, const TreeOp&) = default;
};

// Adds `leaves` leaves exactly as the tree does, with few buffers: slots are a stack of partial
// sums that grows and collapses like a binary counter. The result is in slot 0; nothing for 0.
std::vector<TreeOp> SequentialPlan(std::uint64_t leaves);

// Buffers that SequentialPlan uses, at most ceil(log2(leaves)) + 1.
std::size_t SequentialSlots(std::uint64_t leaves);

}  // namespace paceline::algo
