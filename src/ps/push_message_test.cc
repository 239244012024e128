#include <algorithm>

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
            .save = true,
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

TEST(PushMessage, IsTheSameWhenItsDenseFloatsComeOneAfterTheOther) {
  const std::vector<std::int64_t> ids{4, 9};
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};
  const std::vector<float> dense(7'001, 0.5F);
  const Push push{.lease = 3, .tables = {{0, 3, ids, rows}}, .dense = dense};
  const MessageBytes whole = EncodePush(push);
  MessageBytes bit_by_bit(whole.size(), ~std::uint64_t{0});
  const auto bytes = std::as_writable_bytes(std::span(bit_by_bit));
  ASSERT_EQ(PushEncoder::Bytes(push, dense.size()), bytes.size());
  PushEncoder encoder(push, dense.size(), bytes);
  for (std::span<const float> left = dense; !left.empty();) {
    EXPECT_LT(encoder.written(), bytes.size());
    EXPECT_TRUE(std::ranges::equal(bytes.first(encoder.written()),
                                   AsBytes(whole).first(encoder.written())));
    const auto next = left.first(std::min<std::size_t>(left.size(), 999));
    encoder.Append(next);
    left = left.subspan(next.size());
  }
  EXPECT_EQ(encoder.written(), bytes.size());
  EXPECT_EQ(bit_by_bit, whole);
}

// Pieces of a size that divides nothing.
bool SeenAsFinite(std::span<const std::byte> message) {
  ArrivingPush arriving;
  for (std::size_t end = 0; end < message.size(); end += 1021) {
    arriving.See(message.first(end), message.size());
    EXPECT_FALSE(arriving.DenseIsFinite()) << "before its end";
  }
  arriving.See(message, message.size());
  return arriving.DenseIsFinite();
}

TEST(ArrivingPush, SeesEveryDenseFloat) {
  const std::vector<std::int64_t> ids{4, 9};
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};
  std::vector<float> dense(2501, 0.5F);
  const auto message = [&] { return EncodePush({.tables = {{0, 3, ids, rows}}, .dense = dense}); };
  EXPECT_TRUE(SeenAsFinite(AsBytes(message())));
  for (const std::size_t place : {0U, 1U, 254U, 255U, 256U, 1300U, 2499U, 2500U}) {
    dense[place] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(SeenAsFinite(AsBytes(message()))) << place;
    dense[place] = 0.5F;
  }
  EXPECT_TRUE(SeenAsFinite(AsBytes(message()))) << "nothing is left of what was seen before";
}

TEST(ArrivingPush, SaysNothingAboutWhatNoTrainerWrites) {
  const std::vector<float> dense(20, 0.5F);
  MessageBytes message = EncodePush({.dense = dense});
  EXPECT_FALSE(SeenAsFinite(AsBytes(message).first(AsBytes(message).size() - 4)));
  for (const std::uint64_t count : {21ULL, 22ULL, 1ULL << 40, ~0ULL}) {
    message[5] = count;
    EXPECT_FALSE(SeenAsFinite(AsBytes(message))) << count;
  }
}

}  // namespace
}  // namespace paceline::ps
