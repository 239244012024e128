#include "ps/server_values.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "base/rng.h"
#include "ps/core_test_util.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using testing::IsOk;

// Few are changed by one thread, many by two.
constexpr std::size_t kFew = 5, kManyRows = 20'000;

class ServerValuesTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  explicit ServerValuesTest(const JobSpec& spec = TestJob(Apply::kAtOnce, 1))
      : values_(ServerValues::Open(spec, {}).value()),
        ids_(GetParam()),
        gradients_(3 * ids_.size()),
        dense_(spec.DenseFloats()) {
    std::iota(ids_.begin(), ids_.end(), std::int64_t{-3});
    CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
    for (float& value : gradients_) value = rng.Normal();
    for (float& value : dense_) value = rng.Normal();
  }

  ps::Push Push() {
    ps::Push push{.learning_rate = 0.125F, .dense = dense_};
    push.tables = {{.table = 0, .dim = 3, .ids = ids_, .values = gradients_}};
    return push;
  }
  // Every other row of the push, and as many that it does not have; rows of another table.
  PullRequest Request() {
    for (std::size_t i = 0; i < ids_.size(); ++i) wanted_.push_back(2 * ids_[i]);
    out_.assign(3 * wanted_.size(), -1);
    other_.assign(2 * ids_.size(), -1);
    return {.rows = {{0, wanted_, out_}, {1, ids_, other_}}, .dense = {}};
  }

  std::unique_ptr<ServerValues> values_;
  std::vector<std::int64_t> ids_, wanted_;
  std::vector<float> gradients_, dense_, out_, other_;
};

TEST_P(ServerValuesTest, APullThatWaitsGetsItsRowsWithThePush) {
  const PullRequest request = Request();
  auto prepared = values_->Prepare(request);
  ASSERT_THAT(prepared, IsOk());
  const WaitingPull waiting{&request, &*prepared};
  const ps::Push push = Push();
  ASSERT_TRUE(values_->FillsPulls(push));
  ASSERT_THAT(values_->Apply(0, push, {&waiting, 1}), IsOk());
  const std::vector<float> filled = out_, other = other_;
  // What a pull that comes now gets.
  ASSERT_THAT(values_->Pull(request), IsOk());
  EXPECT_EQ(out_, filled);
  EXPECT_EQ(other_, other);
}

TEST_P(ServerValuesTest, WhatThePushHasFilledIsNotReadAgain) {
  const PullRequest request = Request();
  auto prepared = values_->Prepare(request);
  ASSERT_THAT(prepared, IsOk());
  prepared->has_rows = true;
  const std::vector<float> filled(out_.size(), 7);
  out_ = filled;
  ASSERT_THAT(values_->Pull(request, std::move(*prepared)), IsOk());
  EXPECT_EQ(out_, filled);
}

// Threads decide about no bit.
TEST_P(ServerValuesTest, APushIsThatOfTheTable) {
  const auto expected = ServerValues::Open(values_->spec(), {}).value();
  ASSERT_THAT(expected->table(0).Push(ids_, gradients_, 0.125F), IsOk());
  ASSERT_THAT(values_->Apply(0, Push()), IsOk());
  std::vector<float> has(gradients_.size()), wants(gradients_.size());
  ASSERT_THAT(values_->table(0).Pull(ids_, has), IsOk());
  ASSERT_THAT(expected->table(0).Pull(ids_, wants), IsOk());
  EXPECT_EQ(has, wants);
}

INSTANTIATE_TEST_SUITE_P(Rows, ServerValuesTest, ::testing::Values(0, 1, kFew, kManyRows));

TEST(ServerValues, RowsThatMayEndWithARoundAreNotFilledBefore) {
  const auto values = ServerValues::Open(SelectiveJob(Apply::kAtOnce, 1), {}).value();
  EXPECT_FALSE(values->FillsPulls({}));
  const auto all = ServerValues::Open(TestJob(Apply::kAtOnce, 1), {}).value();
  EXPECT_TRUE(all->FillsPulls({}));
  EXPECT_FALSE(all->FillsPulls({.deltas = true}));
}

}  // namespace
}  // namespace paceline::ps
