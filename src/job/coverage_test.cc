#include "job/coverage.h"

#include <gmock/gmock.h>

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ViewMember Owner(const char* name, std::uint64_t rank, std::uint64_t first, std::uint64_t end) {
  return {
      .member = name, .rank = rank, .host = "h", .pid = 1, .first_shard = first, .end_shard = end};
}

TEST(OwnersOfShards, CountsTheOwnersOfEachShard) {
  EXPECT_THAT(OwnersOfShards({}, 4), ElementsAre(ShardSpan{0, 4, 0}));
  EXPECT_THAT(OwnersOfShards(std::vector{Owner("b", 1, 2, 4), Owner("a", 0, 0, 2)}, 4),
              ElementsAre(ShardSpan{0, 4, 1}));
  EXPECT_THAT(
      OwnersOfShards(std::vector{Owner("a", 0, 1, 3), Owner("b", 1, 2, 9)}, 5),
      ElementsAre(ShardSpan{0, 1, 0}, ShardSpan{1, 2, 1}, ShardSpan{2, 3, 2}, ShardSpan{3, 5, 1}));
}

TEST(WrongWithView, AcceptsWhatTilesTheShards) {
  EXPECT_EQ(WrongWithView({.members = {Owner("a", 1, 0, 1), Owner("b", 0, 1, 4)}, .why = {}}, 4),
            "");
  // A member without shards is a spare one.
  EXPECT_EQ(WrongWithView({.members = {Owner("a", 0, 0, 4), Owner("b", 1, 4, 4)}, .why = {}}, 4),
            "");
}

TEST(WrongWithView, NamesWhatIsWrong) {
  const auto wrong = [](std::vector<ViewMember> members) {
    return WrongWithView({.members = std::move(members), .why = {}}, 4);
  };
  EXPECT_EQ(wrong({}), "nobody owns shards [0, 4)");
  EXPECT_EQ(wrong({Owner("a", 0, 0, 3)}), "nobody owns shards [3, 4)");
  EXPECT_EQ(wrong({Owner("a", 0, 0, 3), Owner("b", 1, 2, 4)}), "2 members own shards [2, 3)");
  EXPECT_THAT(wrong({Owner("a", 0, 0, 5)}), HasSubstr("member a owns shards [0, 5) of 4"));
  EXPECT_THAT(wrong({Owner("a", 0, 0, 4), Owner("b", 1, 3, 2)}), HasSubstr("member b"));
  EXPECT_EQ(wrong({Owner("a", 0, 0, 2), Owner("b", 2, 2, 4)}), "its ranks are not 0 to 1");
  EXPECT_EQ(wrong({Owner("a", 0, 0, 2), Owner("a", 1, 2, 4)}), "member a is in it twice");
}

// Every step of a plan, without views.
Lineage AllSteps(const algo::BatchPlan& plan) {
  Lineage lineage;
  lineage.starts.push_back({.start = {.run = {}, .model = {}, .plan = plan}, .unix_seconds = {}});
  for (std::uint64_t step = 1; step <= plan.Steps(); ++step) {
    LineageStep entry;
    entry.step = step;
    lineage.steps.push_back(entry);
  }
  return lineage;
}

TEST(CheckCoverage, CountsEpochsOfEverySize) {
  for (const std::uint64_t dataset : {1U, 2U, 7U, 15U, 16U, 17U, 64U, 65U, 100U}) {
    for (const std::uint64_t total : {0U, 1U, 15U, 16U, 17U, 100U, 333U}) {
      const algo::BatchPlan plan{
          .seed = 3, .dataset_size = dataset, .batch = 4, .shards = 4, .total_samples = total};
      ViolationList violations;
      const auto result = CheckCoverage(AllSteps(plan), plan, &violations);
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(violations.count(), 0U);
      EXPECT_EQ(result->samples, total);
      EXPECT_EQ(result->complete_epochs, total / dataset) << dataset << " " << total;
      EXPECT_EQ(result->partial_samples, total % dataset);
    }
  }
}

TEST(CheckCoverage, FindsEachSingleStepThatIsMissing) {
  const algo::BatchPlan plan{
      .seed = 3, .dataset_size = 50, .batch = 4, .shards = 4, .total_samples = 150};
  for (std::uint64_t gone = 1; gone < plan.Steps(); ++gone) {
    Lineage lineage = AllSteps(plan);
    lineage.steps.erase(lineage.steps.begin() + static_cast<std::ptrdiff_t>(gone) - 1);
    ViolationList violations;
    const auto result = CheckCoverage(lineage, plan, &violations);
    ASSERT_TRUE(result.ok());
    ASSERT_GE(violations.count(), 1U) << gone;
    EXPECT_EQ(violations.kept()[0].kind, "lost");
    EXPECT_EQ(violations.kept()[0].step, gone);
    EXPECT_EQ(result->samples, 134U);
  }
}

TEST(CheckCoverage, ASkippedRangeOfEpochsIsLost) {
  const algo::BatchPlan plan{
      .seed = 3, .dataset_size = 4, .batch = 4, .shards = 4, .total_samples = 64};
  Lineage lineage = AllSteps(plan);
  lineage.steps.erase(lineage.steps.begin() + 1, lineage.steps.begin() + 3);
  ViolationList violations;
  ASSERT_TRUE(CheckCoverage(lineage, plan, &violations).ok());
  ASSERT_EQ(violations.count(), 1U);
  EXPECT_THAT(violations.kept()[0].text, HasSubstr("8 whole epoch(s) from epoch 4 on"));
}

TEST(CheckCoverage, RefusesADataSetBeyondItsMemory) {
  const algo::BatchPlan plan{.seed = 3,
                             .dataset_size = std::uint64_t{1} << 50,
                             .batch = 4,
                             .shards = 4,
                             .total_samples = 64};
  ViolationList violations;
  EXPECT_EQ(CheckCoverage(AllSteps(plan), plan, &violations).status().code(), Code::kBadData);
}

}  // namespace
}  // namespace paceline::job
