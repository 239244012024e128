#include "ps/sought_rows.h"

#include <gmock/gmock.h>

#include "ps/sparse_table.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using testing::IsOk;

using Ids = std::vector<std::int64_t>;

SoughtRows Sought(std::uint32_t table, const Ids& ids) {
  return {.table = table, .ids = ids, .groups = StripeGroups(ids, 4), .is_each_once = true};
}

TEST(EachOnce, SeesAnIdThatComesTwiceAnywhere) {
  EXPECT_TRUE(EachOnce({}));
  EXPECT_TRUE(EachOnce(Ids{5}));
  EXPECT_TRUE(EachOnce(Ids{-1, 0, 1, 1LL << 40}));
  EXPECT_FALSE(EachOnce(Ids{7, 1, 2, 7}));
  EXPECT_FALSE(EachOnce(Ids{3, 3}));
}

TEST(RecentlySought, TakesExactlyTheSameIdsOfTheSameTableOnce) {
  RecentlySought sought(4);
  sought.Keep(Sought(1, {4, 5, 6}));
  EXPECT_EQ(sought.Take(0, Ids{4, 5, 6}), nullptr);
  EXPECT_EQ(sought.Take(1, Ids{4, 6, 5}), nullptr);
  EXPECT_EQ(sought.Take(1, Ids{4, 5}), nullptr);
  EXPECT_FALSE(sought.KnowsEachOnce(1, Ids{4, 5}));
  EXPECT_TRUE(sought.KnowsEachOnce(1, Ids{4, 5, 6}));
  EXPECT_NE(sought.Take(1, Ids{4, 5, 6}), nullptr);
  EXPECT_EQ(sought.Take(1, Ids{4, 5, 6}), nullptr);
}

TEST(RecentlySought, ForgetsTheOldest) {
  RecentlySought sought(2);
  for (const std::int64_t id : {1, 2, 3}) sought.Keep(Sought(0, {id}));
  EXPECT_EQ(sought.Take(0, Ids{1}), nullptr);
  EXPECT_NE(sought.Take(0, Ids{2}), nullptr);
  EXPECT_NE(sought.Take(0, Ids{3}), nullptr);
}

TableOptions OfTwoFloats() {
  return {.name = "t", .dim = 2, .init_range = 0.5F, .optimizer = {}, .evict_after = 1};
}

// Rows that were found stay right whatever happens to the table before they are used again.
TEST(StripeGroups, UsedAgainGivesWhatAnotherSearchGives) {
  SparseTable table(OfTwoFloats());
  const Ids ids = {1, 2, 3, 4, 5};
  const auto push = [&](const Ids& some, float gradient) {
    return table.Push(some, std::vector<float>(some.size() * 2, gradient), 0.5F);
  };
  const auto pull = [&](StripeGroups& groups) {
    std::vector<float> out(groups.size() * 2);
    EXPECT_THAT(table.Pull(groups, out), IsOk());
    return out;
  };
  ASSERT_THAT(push({1, 2, 3}, 1), IsOk());
  StripeGroups groups = table.Group(ids);
  const auto expect_same = [&] {
    StripeGroups sought_now = table.Group(ids);
    EXPECT_EQ(pull(groups), pull(sought_now));
  };
  expect_same();
  ASSERT_THAT(push({3, 4}, 2), IsOk());  // one was found, one was not there
  expect_same();
  ASSERT_THAT(table.Erase(Ids{1, 2}).status(), IsOk());
  expect_same();
  for (std::int64_t id = 100; id < 400; ++id)
    ASSERT_THAT(push({id}, 3), IsOk());  // in their places
  expect_same();
  std::vector<float> before(10);
  const std::vector<float> values = pull(groups);
  ASSERT_THAT(table.PushKeeping(groups, std::vector<float>(10, 1.0F), 0.5F, before), IsOk());
  EXPECT_EQ(before, values);
  expect_same();
  EXPECT_EQ(table.Size(), 305U);
}

}  // namespace
}  // namespace paceline::ps
