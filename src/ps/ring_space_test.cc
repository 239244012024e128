#include "ps/ring_space.h"

#include <gmock/gmock.h>

namespace paceline::ps {
namespace {

using ::testing::Eq;
using ::testing::Optional;

TEST(RingSpace, PiecesFollowEachOtherAndBeginAgainInFront) {
  RingSpace ring(100);
  EXPECT_THAT(ring.Take(40), Optional(0U));
  EXPECT_THAT(ring.Take(40), Optional(40U));
  EXPECT_THAT(ring.Take(40), Eq(std::nullopt));  // 20 at the end
  ring.FreeOldest();
  EXPECT_THAT(ring.Take(41), Eq(std::nullopt));
  EXPECT_THAT(ring.Take(40), Optional(0U));
  EXPECT_THAT(ring.Take(21), Eq(std::nullopt));
  EXPECT_THAT(ring.Take(20), Optional(80U));
  EXPECT_THAT(ring.Take(1), Eq(std::nullopt));  // full
  ring.FreeOldest();
  EXPECT_THAT(ring.Take(40), Optional(40U));
  ring.FreeOldest();
  ring.FreeOldest();
  ring.FreeOldest();
  EXPECT_THAT(ring.Take(100), Optional(0U));
}

TEST(RingSpace, MemoryIsUsedAgainHoweverManyPiecesComeOneAfterTheOther) {
  RingSpace ring(100);
  EXPECT_THAT(ring.Take(8), Optional(0U));
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(ring.Take(8), Optional(i % 2 == 0 ? 8U : 0U));  // one is always in use
    ring.FreeOldest();
  }
}

TEST(RingSpace, TheNewestMayBeGivenBack) {
  RingSpace ring(100);
  EXPECT_THAT(ring.Take(40), Optional(0U));
  EXPECT_THAT(ring.Take(60), Optional(40U));
  ring.FreeNewest();
  EXPECT_THAT(ring.Take(16), Optional(40U));
  ring.FreeOldest();
  EXPECT_THAT(ring.Take(44), Optional(56U));
}

TEST(RingSpace, WhatIsLargerThanTheBufferNeverFits) {
  RingSpace ring(8), none;
  EXPECT_THAT(ring.Take(16), Eq(std::nullopt));
  EXPECT_THAT(none.Take(8), Eq(std::nullopt));
}

}  // namespace
}  // namespace paceline::ps
