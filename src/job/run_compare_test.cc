#include "job/run_compare.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "job/fake_run_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;

RunComparison Compare(const FakeRun& first, const FakeRun& second) {
  auto comparison = CompareRuns(first.Load(), second.Load());
  EXPECT_THAT(comparison, IsOk());
  return comparison.ok() ? *comparison : RunComparison{};
}

TEST(CompareRuns, RunsWithOtherMembersCanBeEqual) {
  FakeRun calm, eventful;
  calm.Start().Steps(1, 25, {.state = "s"}).End(25);
  eventful.Start().View(1, 0, {2, 2}).Steps(1, 10, {.generation = 1, .state = "s"});
  eventful.View(2, 11, {0, 4}).Steps(12, 25, {.generation = 2, .state = "s"}).End(25);
  const RunComparison comparison = Compare(calm, eventful);
  EXPECT_EQ(comparison.likeness, Likeness::kEqual);
  EXPECT_EQ(comparison.compared_steps, 24U);
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("audit: the runs are equal"));
}

TEST(CompareRuns, NamesTheFirstStepAndTheTensorsThatDiffer) {
  FakeRun first, second;
  first.Start().Steps(1, 25, {.state = "s"});
  second.Start().Steps(1, 8, {.state = "s"}).Steps(9, 25, {.state = "t"});
  const RunComparison comparison = Compare(first, second);
  EXPECT_EQ(comparison.likeness, Likeness::kDifferent);
  EXPECT_EQ(comparison.step, 9U);
  EXPECT_THAT(comparison.tensors, ElementsAre("a.weight"));
  EXPECT_EQ(comparison.equal_tensors, 2U);
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("step 9: s-9 (line 10) / t-9 (line 10)"));
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("1 of 3 differ: a.weight"));
  EXPECT_EQ(nlohmann::json::parse(ComparisonJson(comparison))["verdict"], "different");
}

TEST(CompareRuns, SupersededStepsAreNotCompared) {
  FakeRun first, second;
  first.Start().Steps(1, 25, {.state = "s"});
  second.Start().Steps(1, 9, {.state = "s"}).Step(10, {.state = "x"}).Start(9);
  second.Steps(10, 25, {.state = "s"});
  EXPECT_EQ(Compare(first, second).likeness, Likeness::kEqual);
}

TEST(CompareRuns, AShorterRunIsAPrefix) {
  FakeRun first, second;
  first.Start().Steps(1, 25, {.state = "s"});
  second.Start().Steps(1, 20, {.state = "s"});
  const RunComparison comparison = Compare(first, second);
  EXPECT_EQ(comparison.likeness, Likeness::kPrefix);
  EXPECT_EQ(comparison.reason,
            second.Path() + " is a prefix of " + first.Path() + ": 20 of 25 steps");
}

TEST(CompareRuns, ALastStepWithoutHashIsNotEqual) {
  FakeRun first, second;
  first.Start().Steps(1, 25, {.state = "s"});
  second.Start().Steps(1, 24, {.state = "s"}).Step(25);
  const RunComparison comparison = Compare(first, second);
  EXPECT_EQ(comparison.likeness, Likeness::kPrefix);
  EXPECT_THAT(comparison.reason, HasSubstr("from 25 on, have no hash"));
}

TEST(CompareRuns, SaysWhyRunsAreNotComparable) {
  FakeRun first, plain, other, empty;
  first.Start().Steps(1, 25, {.state = "s"});
  plain.Start().Steps(1, 25);
  EXPECT_THAT(Compare(first, plain).reason, HasSubstr("was it made with --reproducible?"));
  algo::BatchPlan plan = FakeRun::kPlan;
  plan.seed = 8;
  plan.shards = 2;
  other.Start(0, plan).Steps(1, 25, {.state = "s"});
  EXPECT_THAT(Compare(first, other).reason, HasSubstr("plans: seed 7 / 8, shards 4 / 2"));
  EXPECT_EQ(Compare(first, other).likeness, Likeness::kNotComparable);
  empty.Event("");
  EXPECT_THAT(Compare(first, empty).reason, HasSubstr("has no start record"));
}

}  // namespace
}  // namespace paceline::job
