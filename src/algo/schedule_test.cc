#include "algo/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "algo/tree_program.h"

namespace paceline::algo {
namespace {

constexpr Algorithm kAll[] = {Algorithm::kOneShot, Algorithm::kDirect, Algorithm::kHalvingDoubling};

Participants Even(std::uint64_t shards, std::uint64_t size) {
  const ShardLayout layout = ShardLayout::Even(shards, size);
  Participants participants;
  for (std::uint64_t rank = 0; rank < size; ++rank) {
    participants.nodes.push_back(layout.NodesOf(Rank(rank)));
  }
  return participants;
}

// Values as expressions: what is added, and in which order, is plain to see.
using Values = std::vector<std::string>;

std::string TreeText(const TreeNode& node) {
  if (node.size() == 1) return std::to_string(node.begin);
  return "(" + TreeText(node.Left()) + "+" + TreeText(node.Right()) + ")";
}

std::string Evaluate(const TreeNode& into,
                     std::map<std::uint64_t, std::pair<TreeNode, std::string>> known) {
  std::vector<TreeNode> nodes;
  std::vector<std::string> values;
  for (const auto& [begin, entry] : known) {
    nodes.push_back(entry.first);
    values.push_back(entry.second);
  }
  const TreeProgram program = MakeTreeProgram(into, nodes);
  for (const TreeProgram::Add& add : program.adds) {
    values.push_back("(" + values[add.left] + "+" + values[add.right] + ")");
  }
  return values.back();
}

// Runs all participants against each other, element by element.
std::vector<Values> RunAll(Algorithm algorithm, const Participants& participants,
                           std::size_t count) {
  const std::size_t size = participants.size();
  std::vector<std::vector<Exchange>> plans;
  std::vector<Values> result(size, Values(count));
  std::vector<std::vector<TreeNode>> result_node(size, std::vector<TreeNode>(count));
  for (std::size_t self = 0; self < size; ++self) {
    plans.push_back(PlanReduction(algorithm, participants, self, count));
  }
  for (std::size_t e = 0; e < plans[0].size(); ++e) {
    std::vector<Values> before = result;
    const auto node_before = result_node;
    for (std::size_t self = 0; self < size; ++self) {
      const Exchange& exchange = plans[self][e];
      for (const Transfer& receive : exchange.receives) {
        // The sender means the same message.
        const auto& sends = plans[receive.peer][e].sends;
        EXPECT_NE(
            std::find(sends.begin(), sends.end(), Transfer{self, receive.what, receive.slice}),
            sends.end());
        if (exchange.reduce.size() > 0) continue;
        for (std::size_t i = receive.slice.begin; i < receive.slice.end; ++i) {
          result[self][i] = before[receive.peer][i];
          result_node[self][i] = node_before[receive.peer][i];
        }
      }
      for (std::size_t i = exchange.reduce.begin; i < exchange.reduce.end; ++i) {
        std::map<std::uint64_t, std::pair<TreeNode, std::string>> known;
        const auto add = [&](std::size_t who, Transfer::What what) {
          if (what == Transfer::What::kResult) {
            known[node_before[who][i].begin] = {node_before[who][i], before[who][i]};
            return;
          }
          for (const TreeNode& node : participants.nodes[who]) {
            known[node.begin] = {node, TreeText(node)};
          }
        };
        Transfer::What what = Transfer::What::kParts;
        for (const Transfer& receive : exchange.receives) {
          what = receive.what;
          add(receive.peer, receive.what);
        }
        add(self, what);
        result[self][i] = Evaluate(exchange.into, known);
        result_node[self][i] = exchange.into;
      }
    }
  }
  return result;
}

TEST(Schedule, EveryAlgorithmAddsInTheOrderOfTheTree) {
  for (const Algorithm algorithm : kAll) {
    for (std::uint64_t size = 1; size <= 8; ++size) {
      for (const std::uint64_t shards : {size, size + 1, 2 * size, 4 * size, std::uint64_t{12}}) {
        if (shards < size) continue;
        const Participants participants = Even(shards, size);
        if (!Possible(algorithm, participants)) continue;
        const std::string expected = TreeText({0, shards});
        for (const Values& values : RunAll(algorithm, participants, 37)) {
          for (const std::string& value : values) {
            ASSERT_EQ(value, expected) << AlgorithmName(algorithm) << " " << size << "/" << shards;
          }
        }
      }
    }
  }
}

TEST(Schedule, BytesAreThoseOfTheFormulas) {
  constexpr std::size_t kCount = 64'000;
  constexpr std::uint64_t kBytes = kCount * sizeof(float);
  for (const std::uint64_t size : {2U, 4U, 8U}) {
    const Participants participants = Even(size, size);
    for (std::size_t self = 0; self < size; ++self) {
      const auto cost = [&](Algorithm algorithm) {
        return CostOf(PlanReduction(algorithm, participants, self, kCount), participants, self);
      };
      EXPECT_EQ(cost(Algorithm::kOneShot).payload_bytes, (size - 1) * kBytes);
      EXPECT_EQ(cost(Algorithm::kDirect).payload_bytes, 2 * (size - 1) * kBytes / size);
      EXPECT_EQ(cost(Algorithm::kHalvingDoubling).payload_bytes, 2 * (size - 1) * kBytes / size);
      EXPECT_EQ(cost(Algorithm::kDirect).exchanges, 2U);
      EXPECT_EQ(cost(Algorithm::kDirect).messages, 2 * (size - 1));
    }
  }
}

TEST(Schedule, SmallGoesInOneStepLargeGoesWithFewBytes) {
  const Participants four = Even(4, 4);
  EXPECT_EQ(ChooseAlgorithm(four, 16, {}), Algorithm::kOneShot);
  EXPECT_EQ(ChooseAlgorithm(four, 100'000, {}), Algorithm::kDirect);
  EXPECT_EQ(ChooseAlgorithm(Even(3, 3), 4'000'000, {}), Algorithm::kDirect);
}

TEST(Schedule, LargeDataGoesToOneParticipantAtATimeWherePossible) {
  EXPECT_EQ(ChooseAlgorithm(Even(4, 4), 4'000'000, {}), Algorithm::kHalvingDoubling);
}

TEST(Schedule, ManyParticipantsPreferFewMessages) {
  const Participants many = Even(64, 64);
  EXPECT_EQ(ChooseAlgorithm(many, 2'000, {}), Algorithm::kHalvingDoubling);
}

TEST(Schedule, HalvingDoublingNeedsEqualSubtrees) {
  EXPECT_TRUE(Possible(Algorithm::kHalvingDoubling, Even(8, 4)));
  EXPECT_FALSE(Possible(Algorithm::kHalvingDoubling, Even(3, 3)));
  EXPECT_FALSE(Possible(Algorithm::kHalvingDoubling, Even(12, 4)));
}

TEST(PipelineOrder, StartsAndCompletesEverythingOnceAndInOrder) {
  for (const std::size_t segments : {1U, 2U, 5U}) {
    for (const std::size_t exchanges : {1U, 2U, 6U}) {
      std::set<std::pair<std::size_t, std::size_t>> started, completed;
      for (const PipelineStep& step : PipelineOrder(segments, exchanges, 2)) {
        const auto key = std::pair(step.segment, step.exchange);
        if (step.kind == PipelineStep::Kind::kStart) {
          EXPECT_TRUE(started.insert(key).second);
          if (step.exchange > 0) {
            EXPECT_TRUE(completed.contains({step.segment, step.exchange - 1}));
          }
        } else {
          EXPECT_TRUE(started.contains(key));
          EXPECT_TRUE(completed.insert(key).second);
        }
      }
      EXPECT_EQ(completed.size(), segments * exchanges);
      EXPECT_EQ(started, completed);
    }
  }
}

TEST(PipelineOrder, KeepsTheNextSegmentUnderWay) {
  const auto order = PipelineOrder(3, 2, 1);
  using Kind = PipelineStep::Kind;
  const std::vector<PipelineStep> expected{
      {Kind::kStart, 0, 0}, {Kind::kStart, 1, 0},    {Kind::kComplete, 0, 0},
      {Kind::kStart, 0, 1}, {Kind::kStart, 2, 0},    {Kind::kComplete, 1, 0},
      {Kind::kStart, 1, 1}, {Kind::kComplete, 0, 1}, {Kind::kComplete, 2, 0},
      {Kind::kStart, 2, 1}, {Kind::kComplete, 1, 1}, {Kind::kComplete, 2, 1}};
  EXPECT_EQ(order, expected);
}

TEST(TreeProgram, UsesFewTemporaries) {
  std::vector<TreeNode> leaves;
  for (std::uint64_t i = 0; i < 64; ++i) leaves.push_back({i, i + 1});
  const TreeProgram program = MakeTreeProgram({0, 64}, leaves);
  EXPECT_EQ(program.adds.size(), 63U);
  EXPECT_LE(program.slots, 7U);
}

TEST(TreeProgram, AKnownRootNeedsNoAddition) {
  const std::vector<TreeNode> root{{0, 4}};
  EXPECT_TRUE(MakeTreeProgram({0, 4}, root).adds.empty());
}

}  // namespace
}  // namespace paceline::algo
