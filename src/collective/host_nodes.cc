#include "collective/host_nodes.h"

#include <utility>

namespace paceline::collective {

std::vector<algo::TreeNode> NodesOfHost(const algo::ShardLayout& layout,
                                        const std::vector<Rank>& ranks) {
  std::vector<algo::TreeNode> nodes;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1, last = first) {
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last].Next()) ++last;
    const auto run = layout.NodesOf(ranks[first], ranks[last]);
    nodes.insert(nodes.end(), run.begin(), run.end());
  }
  return nodes;
}

std::vector<HostNode> PlanHostNodes(const algo::ShardLayout& layout,
                                    const std::vector<Rank>& ranks) {
  std::vector<HostNode> plan;
  for (const algo::TreeNode& node : NodesOfHost(layout, ranks)) {
    HostNode entry{.node = node};
    std::vector<algo::TreeNode> known;
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      const auto nodes = layout.NodesOf(ranks[local]);
      for (std::size_t part = 0; part < nodes.size(); ++part) {
        if (nodes[part].begin < node.begin || nodes[part].end > node.end) continue;
        entry.sources.push_back({local, part});
        known.push_back(nodes[part]);
      }
    }
    entry.sum.emplace(node, known);
    plan.push_back(std::move(entry));
  }
  return plan;
}

}  // namespace paceline::collective
