#include "ps/channel.h"

#include <unistd.h>

#include <algorithm>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "net/inproc.h"
#include "ps/memory_offer.h"
#include "ps/protocol.h"
#include "testing/status_matchers.h"
#include "wire/endian.h"

namespace paceline::ps {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr std::size_t kArea = 2 * kSharedStep + 4096 + 120;
constexpr std::uint64_t kTag = 0x5350;

bool Inside(std::span<const std::byte> area, std::span<const std::byte> part) {
  return part.data() >= area.data() && part.data() + part.size() <= area.data() + area.size();
}

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() {
    auto [mine, theirs] = net::MakeInprocPair(loop_);
    left_ = std::make_unique<net::Connection>(loop_, std::move(mine), net::ConnectionOptions{});
    right_ = std::make_unique<Channel>(
        std::make_unique<net::Connection>(loop_, std::move(theirs), net::ConnectionOptions{}));
  }

  // Both sides map the same memory, at two addresses.
  void ShareWith(Channel* left, Sharing theirs) {
    ours_ = std::make_shared<net::SharedMemory>(net::SharedMemory::Create(kArea).value());
    theirs_ = std::make_shared<net::SharedMemory>(
        net::SharedMemory::Map(UniqueFd(::dup(ours_->fd())), kArea).value());
    if (left != nullptr) left->Share(ours_, ours_->bytes(), Sharing::kOutgoing);
    right_->Share(theirs_, theirs_->bytes(), theirs);
  }

  // What a peer might say.
  Result<Message> ReceiveClaim(std::uint64_t offset, std::uint64_t bytes, std::uint32_t flags = 1) {
    std::vector<std::byte> head(24);
    wire::StoreLittle(head.data(), static_cast<std::uint16_t>(MessageKind::kPush));
    wire::StoreLittle(head.data() + 4, flags);
    wire::StoreLittle(head.data() + 8, bytes);
    wire::StoreLittle(head.data() + 16, offset);
    net::Completion sent;
    left_->Send(wire::FrameType::kData, kTag, head, sent.ForSend());
    auto received = right_->Receive();
    static_cast<void>(sent.Wait(kNoDeadline));
    return received;
  }

  net::Loop loop_;
  std::unique_ptr<net::Connection> left_;
  std::unique_ptr<Channel> right_;
  std::shared_ptr<net::SharedMemory> ours_, theirs_;
};

TEST_F(ChannelTest, WhatIsInSharedMemoryIsNotSent) {
  for (const Sharing sharing : {Sharing::kIncomingInPlace, Sharing::kIncomingCopied}) {
    auto [mine, theirs] = net::MakeInprocPair(loop_);
    auto connection =
        std::make_unique<net::Connection>(loop_, std::move(mine), net::ConnectionOptions{});
    const net::Connection& wire = *connection;
    Channel left(std::move(connection));
    right_ = std::make_unique<Channel>(
        std::make_unique<net::Connection>(loop_, std::move(theirs), net::ConnectionOptions{}));
    ShareWith(&left, sharing);
    const auto payload = ours_->bytes().subspan(4096, 100'000);
    for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i % 251);
    ASSERT_THAT(left.Send(MessageKind::kPush, payload), IsOk());
    const auto message = right_->Receive();
    ASSERT_THAT(message, IsOk());
    EXPECT_TRUE(std::ranges::equal(message->payload, payload));
    EXPECT_EQ(Inside(theirs_->bytes(), message->payload), sharing == Sharing::kIncomingInPlace);
    EXPECT_LT(wire.bytes_sent(), 1000U);
  }
}

// How much of a payload was there at each call, and whether it was right.
struct Seen {
  std::vector<std::size_t> bytes;
  bool right = true;

  WatchPayload Watch(std::span<const std::byte> expected) {
    return [this, expected](MessageKind, std::span<const std::byte> so_far, std::size_t all) {
      const std::size_t before = bytes.empty() ? 0 : bytes.back();
      bytes.push_back(so_far.size());
      right = right && all == expected.size() && so_far.size() >= before &&
              std::ranges::equal(so_far.subspan(before),
                                 expected.subspan(before, so_far.size() - before));
    };
  }
};

// The sender goes on only when the receiver has seen what it wrote before.
TEST_F(ChannelTest, APayloadIsSeenWhileItIsWritten) {
  Channel left(std::move(left_));
  for (const bool shared : {false, true}) {
    for (const Sharing sharing : {Sharing::kIncomingCopied, Sharing::kIncomingInPlace}) {
      ShareWith(&left, sharing);
      std::vector<std::byte> own(2 * kSharedStep + 80);
      const std::span<std::byte> payload =
          shared ? ours_->bytes().subspan(4096, own.size()) : std::span(own);
      std::vector<std::byte> expected(payload.size());
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = std::byte(i * 7 % 251);
      Seen seen;
      std::promise<void> has_begun;
      auto received = std::async(std::launch::async, [&] {
        const auto watch = [&, see = seen.Watch(expected)](MessageKind kind, auto so_far,
                                                           std::size_t all) {
          see(kind, so_far, all);
          if (seen.bytes.size() == 2) has_begun.set_value();
        };
        return right_->Receive(kNoDeadline, {.watch = watch});
      });
      const auto write = [&](std::size_t begin, std::size_t end) {
        std::ranges::copy(std::span(expected).subspan(begin, end - begin), &payload[begin]);
      };
      const Status sent =
          left.SendWhileWritten(MessageKind::kPush, payload, [&](const Written& written) {
            write(0, kSharedStep);
            written(kSharedStep);
            has_begun.get_future().wait();
            write(kSharedStep, payload.size());
            written(payload.size());
            return Status();
          });
      ASSERT_THAT(sent, IsOk());
      const auto message = received.get();
      ASSERT_THAT(message, IsOk());
      EXPECT_TRUE(std::ranges::equal(message->payload, expected));
      EXPECT_TRUE(seen.right);
      EXPECT_EQ(seen.bytes.front(), 0U);
      EXPECT_EQ(seen.bytes.back(), payload.size());
      EXPECT_TRUE(std::ranges::is_sorted(seen.bytes));
    }
  }
}

TEST_F(ChannelTest, TheReceiverSaysWhatIsUsedInPlace) {
  Channel left(std::move(left_));
  ShareWith(&left, Sharing::kIncomingCopied);
  const auto payload = ours_->bytes().subspan(0, 2 * kInlineBytes);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i % 251);
  for (const MessageKind kind : {MessageKind::kPush, MessageKind::kInitialise}) {
    ASSERT_THAT(left.Send(kind, payload), IsOk());
    const auto message = right_->Receive(
        kNoDeadline, {.in_place = [](MessageKind asked) { return asked == MessageKind::kPush; }});
    ASSERT_THAT(message, IsOk());
    EXPECT_EQ(message->owner != nullptr, kind == MessageKind::kPush);
    EXPECT_EQ(Inside(theirs_->bytes(), message->payload), kind == MessageKind::kPush);
    EXPECT_TRUE(std::ranges::equal(message->payload, payload));
    EXPECT_EQ(right_->PayloadMemory() == nullptr, kind == MessageKind::kPush);
  }
}

TEST_F(ChannelTest, APayloadIsReceivedToWhereItBelongs) {
  Channel left(std::move(left_));
  std::vector<std::byte> payload((std::size_t{1} << 20) + 24), placed(payload.size());
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i % 251);
  constexpr std::size_t kHere = 100'000;  // the beginning stays with the channel
  auto received = std::async(std::launch::async, [&] {
    return right_->Receive(
        kNoDeadline, {.place = [&](std::size_t begin, std::size_t count, std::size_t bytes) {
          EXPECT_EQ(bytes, payload.size());
          return begin < kHere ? std::span<std::byte>() : std::span(placed).subspan(begin, count);
        }});
  });
  ASSERT_THAT(left.Send(MessageKind::kPull, payload), IsOk());
  const auto message = received.get();
  ASSERT_THAT(message, IsOk());
  const std::size_t here = message->payload.size();
  EXPECT_GE(here, kHere);
  EXPECT_LT(here, payload.size());
  EXPECT_TRUE(std::ranges::equal(message->payload, std::span(payload).first(here)));
  EXPECT_TRUE(
      std::ranges::equal(std::span(placed).subspan(here), std::span(payload).subspan(here)));
  EXPECT_EQ(right_->PayloadMemory(), nullptr);
}

TEST_F(ChannelTest, WhatCannotBeWrittenIsNotSentOrEndsTheChannel) {
  Channel left(std::move(left_));
  const std::vector<std::byte> payload(kInlineBytes + 8);
  const Status none = Status::Error(Code::kTimeout, "nothing to send");
  EXPECT_THAT(
      left.SendWhileWritten(MessageKind::kPull, payload, [&](const Written&) { return none; }),
      StatusIs(Code::kTimeout, _));
  ASSERT_THAT(left.Send(MessageKind::kPull, std::span(payload).first(3)), IsOk());
  const auto message = right_->Receive();
  ASSERT_THAT(message, IsOk());
  EXPECT_EQ(message->payload.size(), 3U);
  EXPECT_THAT(left.SendWhileWritten(MessageKind::kPull, payload,
                                    [&](const Written& written) {
                                      written(8);
                                      return none;
                                    }),
              StatusIs(Code::kTimeout, _));
  EXPECT_FALSE(right_->Receive().ok());
}

TEST_F(ChannelTest, AClaimWhoseEndIsNotAnnouncedIsNotAccepted) {
  ShareWith(nullptr, Sharing::kIncomingCopied);
  auto received = std::async(std::launch::async, [&] { return right_->Receive(); });
  std::vector<std::byte> head(24);
  wire::StoreLittle(head.data(), static_cast<std::uint16_t>(MessageKind::kPush));
  wire::StoreLittle(head.data() + 4, std::uint32_t{1});
  wire::StoreLittle(head.data() + 8, std::uint64_t{kSharedStep + 8});
  net::Completion sent;
  left_->Send(wire::FrameType::kData, kTag, head, sent.ForSend());
  ASSERT_THAT(sent.Wait(kNoDeadline), IsOk());
  left_->Leave();
  EXPECT_FALSE(received.get().ok());
}

TEST_F(ChannelTest, AClaimAtTheEndOfTheMemoryIsAccepted) {
  ShareWith(nullptr, Sharing::kIncomingCopied);
  EXPECT_THAT(ReceiveClaim(kArea - 80'000, 80'000), IsOk());
}

struct Claim {
  std::uint64_t offset, bytes;
  std::uint32_t flags = 1;
};
class WrongClaimTest : public ChannelTest, public ::testing::WithParamInterface<Claim> {};

TEST_P(WrongClaimTest, IsRefused) {
  ShareWith(nullptr, Sharing::kIncomingInPlace);
  EXPECT_THAT(ReceiveClaim(GetParam().offset, GetParam().bytes, GetParam().flags),
              StatusIs(Code::kProtocol, HasSubstr("message")));
  EXPECT_FALSE(right_->Receive().ok());
}
INSTANTIATE_TEST_SUITE_P(All, WrongClaimTest,
                         ::testing::Values(Claim{kArea - 80'000 + 8, 80'000},  // beyond the end
                                           Claim{0, kArea + 8},                //
                                           Claim{kArea + 8, 80'000},           //
                                           Claim{~std::uint64_t{7}, 80'000},   // the sum overflows
                                           Claim{8, std::uint64_t{1} << 39},   //
                                           Claim{8, ~std::uint64_t{0}},        //
                                           Claim{4, 80'000},                   // not aligned
                                           Claim{0, 100},          // short ones are sent
                                           Claim{0, 80'000, 2}));  // unknown flag

TEST_F(ChannelTest, AClaimWithoutSharedMemoryIsRefused) {
  EXPECT_THAT(ReceiveClaim(0, 80'000), StatusIs(Code::kProtocol, HasSubstr("shared memory")));
}

TEST(MemoryOffer, ComesBackAndIsRefusedWhenChanged) {
  MemoryOffer offer{.use = MemoryUse::kToServer, .bytes = 1 << 20, .cookie = {}, .socket = "0a1b2"};
  offer.cookie[3] = std::byte{9};
  const MessageBytes message = EncodeOffer(offer);
  const auto back = DecodeOffer(AsBytes(message));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->use, offer.use);
  EXPECT_EQ(back->bytes, offer.bytes);
  EXPECT_EQ(back->cookie, offer.cookie);
  EXPECT_EQ(back->socket, offer.socket);
  for (std::size_t bytes = 0; bytes < AsBytes(message).size(); ++bytes) {
    EXPECT_THAT(DecodeOffer(AsBytes(message).first(bytes)), StatusIs(Code::kProtocol, _));
  }
  offer.use = MemoryUse{4};
  EXPECT_THAT(DecodeOffer(AsBytes(EncodeOffer(offer))), StatusIs(Code::kProtocol, _));
}

TEST_F(ChannelTest, OnlyServersShareValues) {
  const MemoryOffer offer{
      .use = MemoryUse::kValues, .bytes = 1 << 20, .cookie = {}, .socket = "0a1b2"};
  EXPECT_THAT(AcceptMemory(*right_, AsBytes(EncodeOffer(offer))), StatusIs(Code::kProtocol, _));
}

TEST_F(ChannelTest, AnOfferOnTheSameHostIsTaken) {
  Channel left(std::move(left_));
  auto accepted = std::async(std::launch::async, [&]() -> Status {
    PACELINE_ASSIGN(const Message offer, right_->Receive());
    return AcceptMemory(*right_, offer.payload);
  });
  const auto memory = OfferMemory(left, MemoryUse::kToServer, kArea, kNoDeadline);
  ASSERT_THAT(accepted.get(), IsOk());
  ASSERT_THAT(memory, IsOk());
  ASSERT_NE(*memory, nullptr);
  const auto payload = AreaOf(**memory).last(80'000);
  std::ranges::fill(payload, std::byte{7});
  ASSERT_THAT(left.Send(MessageKind::kPush, payload), IsOk());
  const auto message = right_->Receive();
  ASSERT_THAT(message, IsOk());
  EXPECT_TRUE(std::ranges::equal(message->payload, payload));
}

// Another host: nobody of that name is here. Or somebody else is.
TEST_F(ChannelTest, AnOfferThatCannotBeTakenIsAnsweredNo) {
  auto memory = net::SharedMemory::Create(8192);
  ASSERT_THAT(memory, IsOk());
  const auto server = net::FdServer::Start(memory->fd());
  ASSERT_THAT(server, IsOk());
  Channel left(std::move(left_));
  wire::Nonce cookie{};
  cookie[0] = std::byte{1};
  for (const MemoryOffer& offer :
       {MemoryOffer{MemoryUse::kToServer, 8192, {}, "nobody-has-this-name"},
        MemoryOffer{MemoryUse::kToServer, 16384, {}, (*server)->name()},
        MemoryOffer{MemoryUse::kToServer, 8192, cookie, (*server)->name()}}) {
    ASSERT_THAT(AcceptMemory(*right_, AsBytes(EncodeOffer(offer))), IsOk());
    const auto answer = left.Receive();
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(DecodeNumbers(answer->payload, 1).value()[0], 0U);
  }
}

}  // namespace
}  // namespace paceline::ps
