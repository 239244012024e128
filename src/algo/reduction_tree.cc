#include "algo/reduction_tree.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace paceline::algo {

namespace {

std::uint64_t SplitPoint(const TreeNode& node) {
  PACELINE_CHECK(node.size() >= 2, "a leaf has no children");
  return node.begin + std::bit_floor(node.size() - 1);
}

void CoverBelow(TreeNode node, std::uint64_t begin, std::uint64_t end,
                std::vector<TreeNode>& nodes) {
  if (end <= node.begin || node.end <= begin) return;
  if (begin <= node.begin && node.end <= end) {
    nodes.push_back(node);
    return;
  }
  CoverBelow(node.Left(), begin, end, nodes);
  CoverBelow(node.Right(), begin, end, nodes);
}

}  // namespace

TreeNode TreeNode::Left() const { return {begin, SplitPoint(*this)}; }

TreeNode TreeNode::Right() const { return {SplitPoint(*this), end}; }

std::vector<TreeNode> Cover(std::uint64_t shards, std::uint64_t begin, std::uint64_t end) {
  PACELINE_CHECK(begin <= end && end <= shards, "a range outside the tree");
  std::vector<TreeNode> nodes;
  if (begin < end) CoverBelow({0, shards}, begin, end, nodes);
  return nodes;
}

std::vector<TreeOp> SequentialPlan(std::uint64_t leaves) {
  std::vector<TreeOp> ops;
  std::size_t depth = 0;
  const auto add_top_two = [&] {
    --depth;
    ops.push_back({TreeOp::Kind::kAdd, depth, depth - 1});
  };
  for (std::uint64_t leaf = 0; leaf < leaves; ++leaf) {
    ops.push_back({TreeOp::Kind::kLeaf, leaf, depth++});
    // Each trailing one bit of `leaf` is a complete subtree of that size waiting to its left.
    for (int carry = std::countr_one(leaf); carry > 0; --carry) add_top_two();
  }
  // What is left are complete subtrees of falling size; the tree joins the smallest ones first.
  while (depth > 1) add_top_two();
  return ops;
}

std::size_t SequentialSlots(std::uint64_t leaves) {
  std::size_t slots = 0;
  for (const TreeOp& op : SequentialPlan(leaves)) slots = std::max(slots, op.target + 1);
  return slots;
}

}  // namespace paceline::algo
