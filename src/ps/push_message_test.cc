#include "ps/push_message.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using ::testing::_;
using testing::StatusIs;

// Odd lengths, so that padding matters.
struct Arrays {
  std::vector<std::int64_t> ids{-5, 1'000'000'000'000, 7};
  std::vector<float> rows{1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> dense{0.5F, -0.0F, 3e-40F};
  std::vector<float> one{42};
  std::vector<std::int64_t> id{3};

  Push AsPush() const {
    return {.lease = 3,
            .batch = 9,
            .version = 1234567890123,
            .learning_rate = 0.05F,
            .last = true,
            .deltas = true,
            .trainers = 12,
            .tables = {{.table = 0, .dim = 3, .ids = ids, .values = rows},
                       {.table = 1, .dim = 1, .ids = id, .values = one}},
            .dense = dense};
  }
};

TEST(PushMessageTest, ComesBackAsItWas) {
  const Arrays arrays;
  const MessageBytes bytes = EncodePush(arrays.AsPush());
  const auto push = DecodePush(AsBytes(bytes));
  ASSERT_TRUE(push.ok()) << push.status().message();
  EXPECT_EQ(*push, arrays.AsPush());
}

TEST(PushMessageTest, NothingAtAllIsAPushToo) {
  const auto push = DecodePush(AsBytes(EncodePush({})));
  ASSERT_TRUE(push.ok());
  EXPECT_EQ(*push, Push{});
}

TEST(PushMessageTest, WhatIsCutOrLongerIsRefused) {
  const Arrays arrays;
  MessageBytes bytes = EncodePush(arrays.AsPush());
  for (std::size_t length = 0; length < AsBytes(bytes).size(); ++length) {
    EXPECT_THAT(DecodePush(AsBytes(bytes).first(length)), StatusIs(Code::kProtocol, _)) << length;
  }
  bytes.push_back(0);
  EXPECT_THAT(DecodePush(AsBytes(bytes)), StatusIs(Code::kProtocol, _));
}

TEST(PushMessageTest, CountsThatDoNotFitAreRefusedBeforeMemoryIsTaken) {
  const Arrays arrays;
  const MessageBytes good = EncodePush(arrays.AsPush());
  for (std::size_t word = 4; word < good.size(); ++word) {
    for (const std::uint64_t value :
         {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 33}) {
      MessageBytes bytes = good;
      bytes[word] = value;
      const auto push = DecodePush(AsBytes(bytes));  // ids and floats may be anything
      if (push.ok()) {
        EXPECT_EQ(EncodePush(*push), bytes) << word;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::ps
