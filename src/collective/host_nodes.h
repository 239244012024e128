#pragma once

#include <optional>
#include <vector>

#include "algo/reduction_tree.h"
#include "algo/shard_layout.h"
#include "base/ids.h"
#include "collective/local_slots.h"
#include "collective/tree_sum.h"

namespace paceline::collective {

// Subtrees that the ranks of a host can add up together: those of each run of neighbouring ranks.
std::vector<algo::TreeNode> NodesOfHost(const algo::ShardLayout& layout,
                                        const std::vector<Rank>& ranks);

// One of them: which parts of which local ranks make it, and how they are added.
struct HostNode {
  algo::TreeNode node;
  std::vector<PartOfRank> sources;
  std::optional<TreeSum> sum;  // of the sources, in their order
};
std::vector<HostNode> PlanHostNodes(const algo::ShardLayout& layout,
                                    const std::vector<Rank>& ranks);

}  // namespace paceline::collective
