#include "algo/reduction_tree.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::algo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Magnitudes over many binades, so that another order of additions gives other bits.
std::vector<float> Leaves(std::uint64_t count) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, count, 0);
  std::vector<float> leaves;
  for (std::uint64_t i = 0; i < count; ++i) {
    leaves.push_back(rng.Normal() * static_cast<float>(1U << rng.Below(16)));
  }
  return leaves;
}

float RecursiveSum(const std::vector<float>& leaves, TreeNode node) {
  if (node.size() == 1) return leaves[node.begin];
  const std::uint64_t split = node.begin + std::bit_floor(node.size() - 1);
  return RecursiveSum(leaves, {node.begin, split}) + RecursiveSum(leaves, {split, node.end});
}

float PlannedSum(const std::vector<float>& leaves, TreeNode node) {
  std::vector<float> slots(SequentialSlots(node.size()));
  for (const TreeOp& op : SequentialPlan(node.size())) {
    if (op.kind == TreeOp::Kind::kLeaf) {
      slots.at(op.target) = leaves[node.begin + op.source];
    } else {
      slots.at(op.target) += slots.at(op.source);
    }
  }
  return slots.at(0);
}

void ExpectSameBits(float a, float b) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b));
}

TEST(ReductionTree, SplitsAtTheLargestPowerOfTwoBelowTheSize) {
  EXPECT_EQ((TreeNode{0, 5}.Left()), (TreeNode{0, 4}));
  EXPECT_EQ((TreeNode{0, 8}.Left()), (TreeNode{0, 4}));
  EXPECT_EQ((TreeNode{10, 13}.Right()), (TreeNode{12, 13}));
  EXPECT_EQ((TreeNode{3, 5}.Left()), (TreeNode{3, 4}));
}

TEST(SequentialPlan, GivesTheBitsOfTheRecursiveSum) {
  for (std::uint64_t shards = 1; shards <= 33; ++shards) {
    SCOPED_TRACE(shards);
    const std::vector<float> leaves = Leaves(shards);
    ExpectSameBits(PlannedSum(leaves, {0, shards}), RecursiveSum(leaves, {0, shards}));
  }
}

TEST(SequentialPlan, DiffersFromAddingInALine) {
  int differs = 0;
  for (std::uint64_t shards = 4; shards <= 33; ++shards) {
    const std::vector<float> leaves = Leaves(shards);
    float line = 0;
    for (float leaf : leaves) line += leaf;
    differs += line != PlannedSum(leaves, {0, shards}) ? 1 : 0;
  }
  EXPECT_GT(differs, 5) << "the leaves are too easy to tell orders apart";
}

TEST(SequentialPlan, NeedsFewSlots) {
  EXPECT_THAT(SequentialPlan(0), IsEmpty());
  EXPECT_EQ(SequentialSlots(0), 0U);
  EXPECT_EQ(SequentialSlots(1), 1U);
  for (std::uint64_t shards = 1; shards <= 1025; ++shards) {
    const auto bound = static_cast<std::size_t>(std::bit_width(shards - 1)) + 1;
    EXPECT_LE(SequentialSlots(shards), bound) << shards;
  }
}

TEST(SequentialPlan, TakesLeavesInOrderAndAddsEachTopSlotOnce) {
  EXPECT_THAT(SequentialPlan(3),
              ElementsAre(TreeOp{TreeOp::Kind::kLeaf, 0, 0}, TreeOp{TreeOp::Kind::kLeaf, 1, 1},
                          TreeOp{TreeOp::Kind::kAdd, 1, 0}, TreeOp{TreeOp::Kind::kLeaf, 2, 1},
                          TreeOp{TreeOp::Kind::kAdd, 1, 0}));
}

TEST(Cover, GivesMaximalSubtreesInOrder) {
  EXPECT_THAT(Cover(8, 0, 8), ElementsAre(TreeNode{0, 8}));
  EXPECT_THAT(Cover(8, 1, 7),
              ElementsAre(TreeNode{1, 2}, TreeNode{2, 4}, TreeNode{4, 6}, TreeNode{6, 7}));
  EXPECT_THAT(Cover(7, 4, 7), ElementsAre(TreeNode{4, 7}));
  EXPECT_THAT(Cover(8, 3, 3), IsEmpty());
  EXPECT_THAT(Cover(0, 0, 0), IsEmpty());
  EXPECT_THAT(Cover(1, 0, 1), ElementsAre(TreeNode{0, 1}));
}

// Each owner adds its own subtrees; the owners' parts are then joined up the tree.
float SumOfOwners(const std::vector<float>& leaves, const std::vector<std::uint64_t>& cuts) {
  std::map<std::uint64_t, float> part;      // by the first leaf of the node
  std::map<std::uint64_t, TreeNode> whose;  // the node that `part` holds now
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (const TreeNode& node : Cover(leaves.size(), cuts[i], cuts[i + 1])) {
      part[node.begin] = PlannedSum(leaves, node);
      whose[node.begin] = node;
    }
  }
  const auto known = [&](const TreeNode& node) {
    const auto found = whose.find(node.begin);
    return found != whose.end() && found->second == node;
  };
  WalkTree({0, leaves.size()}, known, [&](const TreeNode& left, const TreeNode& right) {
    part.at(left.begin) += part.at(right.begin);
    whose.at(left.begin) = {left.begin, right.end};
  });
  return part.at(0);
}

TEST(Cover, JoinedUpTheTreeGivesTheSameBitsForEveryPartition) {
  for (std::uint64_t shards = 1; shards <= 10; ++shards) {
    const std::vector<float> leaves = Leaves(shards);
    const float expected = RecursiveSum(leaves, {0, shards});
    for (std::uint64_t mask = 0; mask < std::uint64_t{1} << (shards - 1); ++mask) {
      std::vector<std::uint64_t> cuts{0};
      for (std::uint64_t i = 1; i < shards; ++i) {
        if ((mask >> (i - 1)) & 1) cuts.push_back(i);
      }
      cuts.push_back(shards);
      ExpectSameBits(SumOfOwners(leaves, cuts), expected);
    }
  }
}

TEST(Cover, JoinedUpTheTreeGivesTheSameBitsForRandomPartitionsOfManyShards) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 1, 1);
  for (std::uint64_t shards : {33U, 64U, 100U, 257U}) {
    const std::vector<float> leaves = Leaves(shards);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::uint64_t> cuts{0};
      while (cuts.back() < shards) {
        cuts.push_back(std::min<std::uint64_t>(shards, cuts.back() + 1 + rng.Below(40)));
      }
      ExpectSameBits(SumOfOwners(leaves, cuts), RecursiveSum(leaves, {0, shards}));
    }
  }
}

}  // namespace
}  // namespace paceline::algo
