#include "ps/sync_rounds.h"

#include <gmock/gmock.h>

#include "algo/reduction_tree.h"
#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::ps {
namespace {

using ::testing::ElementsAre;

// By the definition, without stacks and pieces.
float SumOf(const std::vector<float>& leaves, algo::TreeNode node) {
  if (node.size() == 1) return leaves[node.begin];
  return SumOf(leaves, node.Left()) + SumOf(leaves, node.Right());
}

TEST(TreeAdder, AddsAsTheTreeDoes) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 1, 0);
  TreeAdder adder;
  for (const std::size_t leaves : {1U, 2U, 3U, 5U, 8U, 13U}) {
    for (const std::size_t floats : {1U, 7U, 8192U, 20001U}) {
      std::vector<std::vector<float>> values(leaves, std::vector<float>(floats));
      for (auto& leaf : values) {
        for (float& value : leaf) value = rng.Normal();
      }
      const std::vector<std::span<const float>> spans(values.begin(), values.end());
      std::vector<float> sum(floats);
      adder.Add(spans, sum);
      for (const std::size_t i : {std::size_t{0}, floats / 2, floats - 1}) {
        std::vector<float> column;
        column.reserve(leaves);
        for (const auto& leaf : values) column.push_back(leaf[i]);
        EXPECT_EQ(sum[i], SumOf(column, {0, leaves}));
      }
    }
  }
}

SharedMessage Shared(const Push& push) {
  return std::make_shared<const MessageBytes>(EncodePush(push));
}

TEST(SyncRounds, RowsAreSummedOverThoseWhoTouchedThem) {
  const std::vector<std::int64_t> first{9, 3}, second{3, -4};
  const std::vector<float> first_values{1, 2, 3, 4}, second_values{10, 20, 30, 40}, dense{1, 2};
  SyncRounds rounds;
  // Arrival is not the order of trainers.
  rounds.Add(0, 1,
             Shared({.lease = 1, .learning_rate = 7, .tables = {{2, 2, second, second_values}}}));
  rounds.Add(
      0, 0,
      Shared({.learning_rate = 0.5F, .tables = {{2, 2, first, first_values}}, .dense = dense}));
  EXPECT_EQ(rounds.pushes(), 2U);
  EXPECT_GT(rounds.bytes(), 0U);
  const PushSum sum = rounds.Sum(0);
  EXPECT_EQ(sum.push.learning_rate, 0.5F);
  ASSERT_EQ(sum.push.tables.size(), 1U);
  EXPECT_EQ(sum.push.tables[0].table, 2U);
  EXPECT_THAT(sum.push.tables[0].ids, ElementsAre(-4, 3, 9));
  EXPECT_THAT(sum.push.tables[0].values, ElementsAre(30, 40, 13, 24, 1, 2));
  ASSERT_EQ(sum.dense.size(), 1U);
  EXPECT_THAT(sum.dense[0], ElementsAre(1, 2));
  rounds.Forget(0);
  EXPECT_EQ(rounds.pushes(), 0U);
}

TEST(SyncRounds, TheTableOfOneTrainerIsNotCopied) {
  const std::vector<std::int64_t> ids{9, 3};
  const std::vector<float> values{1, 2, 3, 4};
  SyncRounds rounds;
  const SharedMessage message = Shared({.tables = {{2, 2, ids, values}}});
  rounds.Add(0, 1, message);
  rounds.Add(0, 0, Shared({.lease = 0}));
  const PushSum sum = rounds.Sum(0);
  ASSERT_EQ(sum.push.tables.size(), 1U);
  EXPECT_THAT(sum.push.tables[0].ids, ElementsAre(9, 3));
  EXPECT_THAT(sum.push.tables[0].values, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(static_cast<const void*>(sum.push.tables[0].values.data()),
            DecodePush(AsBytes(*message))->tables[0].values.data());
}

}  // namespace
}  // namespace paceline::ps
