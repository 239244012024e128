#include "ps/push_space.h"

#include <gmock/gmock.h>

namespace paceline::ps {
namespace {

using ::testing::Eq;
using ::testing::Optional;

TEST(PushSpace, PiecesFollowEachOtherAndBeginAgainInFront) {
  PushSpace space(100);
  EXPECT_THAT(space.Take(40), Optional(0U));
  EXPECT_THAT(space.Take(40), Optional(40U));
  EXPECT_THAT(space.Take(40), Eq(std::nullopt));  // 20 at the end
  space.FreeOldest();
  EXPECT_THAT(space.Take(41), Eq(std::nullopt));
  EXPECT_THAT(space.Take(40), Optional(0U));
  EXPECT_THAT(space.Take(21), Eq(std::nullopt));
  EXPECT_THAT(space.Take(20), Optional(80U));
  EXPECT_THAT(space.Take(1), Eq(std::nullopt));  // full
  space.FreeOldest();
  EXPECT_THAT(space.Take(40), Optional(40U));
  space.FreeOldest();
  space.FreeOldest();
  space.FreeOldest();
  EXPECT_THAT(space.Take(100), Optional(0U));
}

TEST(PushSpace, MemoryIsUsedAgainHoweverManyPiecesComeOneAfterTheOther) {
  PushSpace space(100);
  EXPECT_THAT(space.Take(8), Optional(0U));
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(space.Take(8), Optional(i % 2 == 0 ? 8U : 0U));  // one is always in use
    space.FreeOldest();
  }
}

TEST(PushSpace, TheNewestMayBeGivenBack) {
  PushSpace space(100);
  EXPECT_THAT(space.Take(40), Optional(0U));
  EXPECT_THAT(space.Take(60), Optional(40U));
  space.FreeNewest();
  EXPECT_THAT(space.Take(16), Optional(40U));
  space.FreeOldest();
  EXPECT_THAT(space.Take(44), Optional(56U));
}

TEST(PushSpace, WhatIsLargerThanTheBufferNeverFits) {
  PushSpace space(8), none;
  EXPECT_THAT(space.Take(16), Eq(std::nullopt));
  EXPECT_THAT(none.Take(8), Eq(std::nullopt));
}

}  // namespace
}  // namespace paceline::ps
