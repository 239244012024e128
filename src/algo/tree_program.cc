#include "algo/tree_program.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::algo {

TreeProgram MakeTreeProgram(const TreeNode& root, std::span<const TreeNode> known) {
  TreeProgram program{.sources = known.size()};
  // The walk is post-order, so operands are always the top of this stack.
  struct Value {
    std::size_t number = 0;
    bool temporary = false;
  };
  std::vector<Value> stack;
  std::size_t next_source = 0, temporaries = 0;
  WalkTree(
      root,
      [&](const TreeNode& node) {
        if (next_source == known.size() || known[next_source] != node) return false;
        stack.push_back({next_source++, false});
        return true;
      },
      [&](const TreeNode&, const TreeNode&) {
        const Value right = stack.back();
        stack.pop_back();
        const Value left = stack.back();
        stack.pop_back();
        temporaries -= (right.temporary ? 1 : 0) + (left.temporary ? 1 : 0);
        program.adds.push_back({left.number, right.number, temporaries++});
        program.slots = std::max(program.slots, temporaries);
        stack.push_back({program.sources + program.adds.size() - 1, true});
      });
  PACELINE_CHECK(next_source == known.size() && stack.size() == 1, "the parts cover the root");
  return program;
}

}  // namespace paceline::algo
