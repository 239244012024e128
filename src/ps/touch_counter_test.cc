#include "ps/touch_counter.h"

#include <vector>

#include <gmock/gmock.h>

namespace paceline::ps {
namespace {

using ::testing::UnorderedElementsAre;

std::vector<WaitingId> All(const TouchCounter& counter) {
  std::vector<WaitingId> all;
  counter.AppendTo(all);
  return all;
}

TEST(TouchCounter, SaysYesAtTheLastTouchAndThenBeginsAnew) {
  TouchCounter counter;
  for (int round = 0; round < 2; ++round) {
    for (int touch = 1; touch < 300; ++touch) EXPECT_FALSE(counter.Touch(7, 0, 300));
    EXPECT_TRUE(counter.Touch(7, 0, 300));
    EXPECT_EQ(counter.size(), 0U);
  }
}

TEST(TouchCounter, OneTouchNeedsNoMemory) {
  TouchCounter counter;
  const std::size_t bytes = counter.MemoryBytes();
  EXPECT_TRUE(counter.Touch(1, 0, 1));
  EXPECT_EQ(counter.MemoryBytes(), bytes);
}

TEST(TouchCounter, IdsAreCountedApart) {
  TouchCounter counter;
  for (std::int64_t id = 0; id < 1000; ++id) EXPECT_FALSE(counter.Touch(id, 0, 2));
  for (std::int64_t id = 0; id < 1000; ++id) EXPECT_TRUE(counter.Touch(id, 0, 2)) << id;
}

TEST(TouchCounter, ForgetsWhoWasNotTouchedForLong) {
  TouchCounter counter;
  counter.Touch(1, 4, 3);
  counter.Touch(2, 4, 3);
  counter.Touch(1, 9, 3);
  counter.ForgetUntouchedSince(9);
  EXPECT_THAT(All(counter), UnorderedElementsAre(WaitingId{.id = 1, .tick = 9, .touches = 2}));
  counter.ForgetUntouchedSince(10);
  EXPECT_EQ(counter.size(), 0U);
}

TEST(TouchCounter, ARestoredOneGoesOn) {
  TouchCounter first, second;
  for (const std::int64_t id : {5, 6, 5}) first.Touch(id, 8, 3);
  for (const WaitingId& waiting : All(first)) second.Restore(waiting);
  EXPECT_THAT(All(second), UnorderedElementsAre(WaitingId{.id = 5, .tick = 8, .touches = 2},
                                                WaitingId{.id = 6, .tick = 8, .touches = 1}));
  EXPECT_TRUE(second.Touch(5, 9, 3));
  EXPECT_FALSE(second.Touch(6, 9, 3));
}

}  // namespace
}  // namespace paceline::ps
