#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "algo/reduction_tree.h"
#include "algo/tree_program.h"

namespace paceline::collective {

// Adds arrays in the order of the fixed tree, block by block, so that partial sums stay in the
// cache and each array is read once. Thread-compatible.
class TreeSum {
 public:
  // `known` says which subtree each source is the sum of, in any order.
  TreeSum(const algo::TreeNode& root, std::span<const algo::TreeNode> known);

  // `sources` in the order of `known`. Every destination gets the sum; a destination may be a
  // source.
  void Run(std::span<const float* const> sources, std::span<float* const> destinations,
           std::size_t count);

 private:
  void RunBlock(std::size_t begin, std::size_t count, std::span<float* const> destinations);
  const float* Value(std::size_t number, std::size_t begin) const;

  std::vector<std::size_t> order_;  // sources by shard
  algo::TreeProgram program_;
  std::vector<float> temporaries_;
  std::vector<const float*> values_;  // of the current run, by shard
  std::vector<float*> targets_;       // destinations of the current block
};

}  // namespace paceline::collective
