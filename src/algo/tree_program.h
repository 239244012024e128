#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "algo/reduction_tree.h"

namespace paceline::algo {

// Additions that make the value of a tree node from the values of known nodes, in the tree's order.
// Values are numbered: sources first, then what the additions make. The last addition makes the
// result; there is none when the root itself is known.
struct TreeProgram {
  struct Add {
    std::size_t left = 0, right = 0;  // numbers of values
    std::size_t slot = 0;             // temporary that holds the sum; slots are used again
  };
  std::size_t sources = 0;
  std::size_t slots = 0;
  std::vector<Add> adds;  // add i makes value sources + i
};

// `known` are disjoint subtrees that together cover `root`, in order.
TreeProgram MakeTreeProgram(const TreeNode& root, std::span<const TreeNode> known);

}  // namespace paceline::algo
