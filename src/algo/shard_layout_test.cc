#include "algo/shard_layout.h"

#include <gtest/gtest.h>

namespace paceline::algo {
namespace {

TEST(SliceOf, PiecesFollowOneAnotherAndCoverEverything) {
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 100U, 1000U, 4096U, 100'003U}) {
    for (std::size_t pieces = 1; pieces <= 9; ++pieces) {
      std::size_t expected = 0;
      for (std::size_t i = 0; i < pieces; ++i) {
        const Slice slice = SliceOf(count, pieces, i);
        EXPECT_EQ(slice.begin, expected) << count << "/" << pieces;
        EXPECT_LE(slice.size(), count / pieces + 32) << count << "/" << pieces;
        expected = slice.end;
      }
      EXPECT_EQ(expected, count);
    }
  }
}

TEST(SliceOf, LargePiecesStartOnCacheLines) {
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(SliceOf(100'003, 7, i).begin % 16, 0U);
}

TEST(ShardLayout, OneShardForEachRankIsOneLeafForEachRank) {
  const ShardLayout layout = ShardLayout::Even(5, 5);
  for (std::uint64_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(layout.NodesOf(Rank(rank)), (std::vector<TreeNode>{{rank, rank + 1}}));
  }
}

TEST(ShardLayout, PowersOfTwoGiveEachRankOneSubtree) {
  const ShardLayout layout = ShardLayout::Even(16, 4);
  EXPECT_EQ(layout.NodesOf(Rank(2)), (std::vector<TreeNode>{{8, 12}}));
  EXPECT_EQ(layout.NodesOf(Rank(2), Rank(3)), (std::vector<TreeNode>{{8, 16}}));
}

TEST(ShardLayout, EveryShardHasOneOwner) {
  for (std::uint64_t world = 1; world <= 7; ++world) {
    const ShardLayout layout = ShardLayout::Even(12, world);
    EXPECT_EQ(layout.world(), world);
    EXPECT_EQ(layout.shards(), 12U);
    std::uint64_t next = 0;
    for (std::uint64_t rank = 0; rank < world; ++rank) {
      EXPECT_EQ(layout.begin(Rank(rank)), ShardId(next));
      next = layout.end(Rank(rank)).value();
    }
    EXPECT_EQ(next, 12U);
  }
}

}  // namespace
}  // namespace paceline::algo
