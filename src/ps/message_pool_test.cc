#include "ps/message_pool.h"

#include <gtest/gtest.h>

namespace paceline::ps {
namespace {

constexpr std::size_t kLong = std::size_t{1} << 18;  // words

TEST(MessagePool, GivesOutMemoryThatNobodyHasAnyMore) {
  MessagePool pool;
  EXPECT_TRUE(pool.Take().empty());
  SharedMessage first = pool.Share(MessageBytes(kLong, 7));
  const auto* const memory = first->data();
  SharedMessage second = first;
  first.reset();
  EXPECT_TRUE(pool.Take().empty());
  EXPECT_EQ(second->back(), 7U);
  second.reset();
  EXPECT_EQ(pool.Take().data(), memory);
}

TEST(MessagePool, ShortMessagesAreNotKept) {
  MessagePool pool;
  pool.Share(MessageBytes(8)).reset();
  EXPECT_TRUE(pool.Take().empty());
}

TEST(MessagePool, MessagesMayOutliveIt) {
  SharedMessage message;
  {
    MessagePool pool;
    message = pool.Share(MessageBytes(kLong, 7));
  }
  EXPECT_EQ(message->front(), 7U);
}

}  // namespace
}  // namespace paceline::ps
