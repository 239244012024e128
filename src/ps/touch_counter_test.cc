#include "ps/touch_counter.h"

#include <gtest/gtest.h>

#include "ps/row_store.h"

namespace paceline::ps {
namespace {

TEST(TouchCounter, SaysYesAtTheLastTouchAndThenBeginsAnew) {
  TouchCounter counter(1000);
  for (int round = 0; round < 2; ++round) {
    for (int touch = 1; touch < 5; ++touch) EXPECT_FALSE(counter.Touch(HashId(7), 5));
    EXPECT_TRUE(counter.Touch(HashId(7), 5));
  }
}

TEST(TouchCounter, OneTouchNeedsNoMemory) {
  TouchCounter counter(0);
  EXPECT_TRUE(counter.Touch(HashId(1), 1));
  EXPECT_FALSE(counter.Touch(HashId(1), 2));
  EXPECT_FALSE(counter.Touch(HashId(1), 2));
  EXPECT_EQ(counter.MemoryBytes(), 0U);
}

TEST(TouchCounter, IdsAreCountedApart) {
  TouchCounter counter(10'000);
  for (std::int64_t id = 0; id < 1000; ++id) EXPECT_FALSE(counter.Touch(HashId(id), 2));
  for (std::int64_t id = 0; id < 1000; ++id) EXPECT_TRUE(counter.Touch(HashId(id), 2)) << id;
}

TEST(TouchCounter, AFloodOfRareIdsForgetsThemAndNotTheFrequentOnes) {
  TouchCounter counter(64);
  const std::size_t bytes = counter.MemoryBytes();
  int frequent = 0;
  for (std::int64_t i = 0; i < 100'000; ++i) {
    EXPECT_FALSE(counter.Touch(HashId(1000 + i), 3)) << "seen once";
    if (i % 2 == 0 && counter.Touch(HashId(5), 3)) ++frequent;
  }
  EXPECT_GT(frequent, 1000);
  EXPECT_EQ(counter.MemoryBytes(), bytes);
}

}  // namespace
}  // namespace paceline::ps
