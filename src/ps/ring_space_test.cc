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
  EXPECT_THAT(ring.Take(1), Eq(std::nullopt));  // full up to the oldest
  ring.FreeOldest();
  EXPECT_THAT(ring.Take(60), Optional(40U));
  ring.FreeOldest();
  ring.FreeOldest();
  EXPECT_THAT(ring.Take(100), Optional(0U));
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
