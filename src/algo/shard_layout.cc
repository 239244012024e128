#include "algo/shard_layout.h"

#include <utility>

#include "base/check.h"

namespace paceline::algo {

Slice SliceOf(std::size_t count, std::size_t pieces, std::size_t index) {
  PACELINE_CHECK(index < pieces, "a piece outside the cut");
  constexpr std::size_t kLine = 16;
  const bool aligned = count / pieces >= kLine;
  const std::size_t unit = aligned ? kLine : 1;
  const std::size_t units = count / unit;
  const auto cut = [&](std::size_t i) {
    return i == pieces ? count : units / pieces * i * unit + units % pieces * i / pieces * unit;
  };
  return {cut(index), cut(index + 1)};
}

ShardLayout ShardLayout::Even(std::uint64_t shards, std::uint64_t world) {
  PACELINE_CHECK(world >= 1 && shards >= world, "every rank owns a shard");
  std::vector<std::uint64_t> begins;
  begins.reserve(world + 1);
  for (std::uint64_t rank = 0; rank <= world; ++rank) {
    begins.push_back(shards / world * rank + shards % world * rank / world);
  }
  return ShardLayout(std::move(begins));
}

std::vector<TreeNode> ShardLayout::NodesOf(Rank rank) const { return NodesOf(rank, rank); }

std::vector<TreeNode> ShardLayout::NodesOf(Rank first, Rank last) const {
  return Cover(shards(), begin(first).value(), end(last).value());
}

}  // namespace paceline::algo
