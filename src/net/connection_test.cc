// One suite for every kind of stream: whoever adds one adds a line at INSTANTIATE.
#include "net/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <future>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/faulty.h"
#include "net/inproc.h"
#include "net/tcp.h"
#include "testing/status_matchers.h"

namespace paceline::net {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using wire::FrameType;

using StreamPair = std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>>;

StreamPair TcpPair(Loop& loop) {
  std::promise<std::unique_ptr<ByteStream>> accepted;
  auto listener = ListenTcp(
      loop, {}, [&](std::unique_ptr<ByteStream> stream) { accepted.set_value(std::move(stream)); });
  EXPECT_THAT(listener, IsOk());
  auto mine = ConnectTcp(loop, (*listener)->endpoint(), std::chrono::seconds(10));
  EXPECT_THAT(mine, IsOk());
  auto theirs = accepted.get_future().get();
  return {std::move(*mine), std::move(theirs)};
}

StreamPair HarmlessFaultyPair(Loop& loop) {
  auto [a, b] = TcpPair(loop);
  return {MakeFaulty(loop, std::move(a), {.delay = std::chrono::microseconds(50)}),
          MakeFaulty(loop, std::move(b), {.jitter = std::chrono::microseconds(100)})};
}

auto InAMoment() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }

std::vector<std::byte> Pattern(std::size_t size, int salt) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 131 + static_cast<std::size_t>(salt) * 29) >> 3);
  }
  return bytes;
}

struct Ends {
  explicit Ends(Loop& loop, StreamPair streams, const ConnectionOptions& left_options = {},
                const ConnectionOptions& right_options = {})
      : left(std::make_unique<Connection>(loop, std::move(streams.first), left_options)),
        right(std::make_unique<Connection>(loop, std::move(streams.second), right_options)) {}
  std::unique_ptr<Connection> left, right;
};

class ConnectionTest : public ::testing::TestWithParam<StreamPair (*)(Loop&)> {
 protected:
  Loop loop_;
};

TEST_P(ConnectionTest, FramesArriveInOrderAndWhole) {
  Ends ends(loop_, GetParam()(loop_));
  const std::vector<std::size_t> sizes{0, 1, 55, 56, 57, 4096, 3'000'000};
  std::vector<std::vector<std::byte>> sent, got;
  std::vector<std::unique_ptr<Completion>> done;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sent.push_back(Pattern(sizes[i], static_cast<int>(i)));
    got.emplace_back(sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    done.push_back(std::make_unique<Completion>());
    ends.left->Send(FrameType::kData, i, sent[i], done.back()->ForSend());
    done.push_back(std::make_unique<Completion>());
    ends.right->Receive({.tag = i}, got[i], done.back()->ForReceive());
  }
  for (const auto& completion : done) ASSERT_THAT(completion->Wait(InAMoment()), IsOk());
  EXPECT_EQ(sent, got);
  EXPECT_EQ(ends.left->frames_sent(), sizes.size());
  EXPECT_EQ(ends.left->bytes_sent(), std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) +
                                         sizes.size() * wire::kHeaderBytes);
}

TEST_P(ConnectionTest, BothDirectionsAtOnceDoNotHoldEachOtherUp) {
  Ends ends(loop_, GetParam()(loop_));
  const auto bytes = Pattern(4'000'000, 1);
  std::vector<std::byte> left(bytes.size()), right(bytes.size());
  Completion a, b, c, d;
  ends.left->Send(FrameType::kData, 1, bytes, a.ForSend());
  ends.right->Send(FrameType::kData, 2, bytes, b.ForSend());
  ends.left->Receive({.tag = 2}, left, c.ForReceive());
  ends.right->Receive({.tag = 1}, right, d.ForReceive());
  for (Completion* completion : {&a, &b, &c, &d})
    ASSERT_THAT(completion->Wait(InAMoment()), IsOk());
  EXPECT_EQ(left, bytes);
  EXPECT_EQ(right, bytes);
}

TEST_P(ConnectionTest, AFrameWaitsUntilSomebodyAsksForIt) {
  Ends ends(loop_, GetParam()(loop_));
  const auto bytes = Pattern(100, 2);
  Completion sent, received;
  ends.left->Send(FrameType::kData, 5, bytes, sent.ForSend());
  ASSERT_THAT(sent.Wait(InAMoment()), IsOk());
  std::vector<std::byte> got(100);
  ends.right->Receive({.tag = 5}, got, received.ForReceive());
  ASSERT_THAT(received.Wait(InAMoment()), IsOk());
  EXPECT_EQ(got, bytes);
}

TEST_P(ConnectionTest, AShorterMessageFillsPartOfTheBuffer) {
  Ends ends(loop_, GetParam()(loop_));
  const auto bytes = Pattern(10, 3);
  std::vector<std::byte> got(64);
  Completion sent, received;
  ends.right->Receive({.type = FrameType::kJoin, .exact = false}, got, received.ForReceive());
  ends.left->Send(FrameType::kJoin, 0, bytes, sent.ForSend());
  ASSERT_THAT(received.Wait(InAMoment()), IsOk());
  EXPECT_EQ(received.bytes(), 10U);
  ASSERT_THAT(sent.Wait(InAMoment()), IsOk());
}

TEST_P(ConnectionTest, ADestroyedPeerIsSeenByWhoWaits) {
  Ends ends(loop_, GetParam()(loop_), {.peer = "rank 7", .rank = 7});
  std::vector<std::byte> got(10);
  Completion received;
  ends.left->Receive({}, got, received.ForReceive());
  ends.right.reset();
  EXPECT_THAT(received.Wait(InAMoment()), StatusIs(Code::kPeerLost, HasSubstr("rank 7")));
}

TEST_P(ConnectionTest, ADestroyedPeerIsSeenByWhoOnlyListens) {
  Ends ends(loop_, GetParam()(loop_), {.peer = "rank 7", .rank = 7});
  std::promise<Closed> closed;
  ends.left->WhenClosed([&](const Closed& how) { closed.set_value(how); });
  ends.right.reset();
  const Closed how = closed.get_future().get();
  EXPECT_THAT(how.status, StatusIs(Code::kPeerLost, _));
  EXPECT_EQ(how.blamed, 7U);
  EXPECT_FALSE(how.polite);
}

TEST_P(ConnectionTest, AnAbortCarriesItsReasonAndWhomItBlames) {
  Ends ends(loop_, GetParam()(loop_), {.rank = 7});
  std::promise<Closed> closed;
  std::vector<std::byte> got(10);
  Completion received;
  ends.left->Receive({}, got, received.ForReceive());
  ends.left->WhenClosed([&](const Closed& how) { closed.set_value(how); });
  ends.right->Abort({.code = Code::kPeerLost, .blamed = 3, .text = "lost rank 3"});
  EXPECT_THAT(received.Wait(InAMoment()), StatusIs(Code::kPeerLost, HasSubstr("lost rank 3")));
  EXPECT_EQ(closed.get_future().get().blamed, 3U);
}

TEST_P(ConnectionTest, AGoodByeComesAfterEverythingThatWasSent) {
  Ends ends(loop_, GetParam()(loop_));
  const auto bytes = Pattern(2'000'000, 4);
  std::vector<std::byte> got(bytes.size());
  std::promise<Closed> closed;
  Completion sent, received;
  ends.left->WhenClosed([&](const Closed& how) { closed.set_value(how); });
  ends.right->Send(FrameType::kData, 1, bytes, sent.ForSend());
  ends.right->Leave();
  ends.left->Receive({.tag = 1}, got, received.ForReceive());
  ASSERT_THAT(received.Wait(InAMoment()), IsOk());
  ASSERT_THAT(sent.Wait(InAMoment()), IsOk());
  EXPECT_TRUE(closed.get_future().get().polite);
  EXPECT_EQ(got, bytes);
}

TEST_P(ConnectionTest, EveryCallbackComesAfterAClose) {
  Ends ends(loop_, GetParam()(loop_));
  const auto bytes = Pattern(8'000'000, 5);  // more than any buffer takes
  std::vector<std::byte> got(10);
  Completion a, b, c;
  ends.left->Send(FrameType::kData, 1, bytes, a.ForSend());
  ends.left->Send(FrameType::kData, 2, bytes, b.ForSend());
  ends.left->Receive({}, got, c.ForReceive());
  ends.left->Abort({.code = Code::kAborted, .text = "enough"});
  EXPECT_FALSE(a.Wait(InAMoment()).ok());
  EXPECT_THAT(b.Wait(InAMoment()), StatusIs(Code::kAborted, HasSubstr("enough")));
  EXPECT_THAT(c.Wait(InAMoment()), StatusIs(Code::kAborted, HasSubstr("enough")));
  Completion late;
  ends.left->Send(FrameType::kData, 3, bytes, late.ForSend());
  EXPECT_THAT(late.Wait(InAMoment()), StatusIs(Code::kAborted, HasSubstr("enough")));
}

TEST_P(ConnectionTest, DivergedSidesAreTold) {
  Ends ends(loop_, GetParam()(loop_));
  const auto bytes = Pattern(10, 6);
  std::vector<std::byte> got(20), back(1);
  Completion sent, received, told;
  ends.left->Receive({}, back, told.ForReceive());
  ends.right->Receive({.tag = 1}, got, received.ForReceive());
  ends.left->Send(FrameType::kData, 1, bytes, sent.ForSend());
  EXPECT_THAT(received.Wait(InAMoment()), StatusIs(Code::kProtocol, HasSubstr("20 bytes")));
  EXPECT_THAT(told.Wait(InAMoment()), StatusIs(Code::kProtocol, HasSubstr("different things")));
  (void)sent.Wait(InAMoment());
}

TEST_P(ConnectionTest, AnOlderGenerationIsRefused) {
  Ends ends(loop_, GetParam()(loop_), {.generation = Generation(4)}, {.generation = Generation(5)});
  const auto bytes = Pattern(10, 6);
  std::vector<std::byte> got(10);
  Completion sent, received;
  ends.right->Receive({}, got, received.ForReceive());
  ends.left->Send(FrameType::kData, 0, bytes, sent.ForSend());
  EXPECT_THAT(received.Wait(InAMoment()),
              StatusIs(Code::kStaleGeneration, HasSubstr("generation 4")));
  (void)sent.Wait(InAMoment());
}

TEST_P(ConnectionTest, AnotherJobIsRefused) {
  Ends ends(loop_, GetParam()(loop_), {.cluster = 1}, {.cluster = 2});
  std::vector<std::byte> got(10);
  Completion sent, received;
  ends.right->Receive({}, got, received.ForReceive());
  ends.left->Send(FrameType::kData, 0, got, sent.ForSend());
  EXPECT_THAT(received.Wait(InAMoment()), StatusIs(Code::kMismatch, HasSubstr("another job")));
  (void)sent.Wait(InAMoment());
}

INSTANTIATE_TEST_SUITE_P(Streams, ConnectionTest,
                         ::testing::Values(&TcpPair, &MakeInprocPair, &HarmlessFaultyPair));

// Of every TCP connection that this process has.
std::vector<std::string> CongestionControls() {
  std::vector<std::string> names;
  for (int fd = 0; fd < 1024; ++fd) {
    tcp_info info{};
    socklen_t length = sizeof(info);
    const bool is_tcp = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
    if (!is_tcp || info.tcpi_state != TCP_ESTABLISHED) continue;
    std::array<char, 17> name{};
    length = name.size() - 1;
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length), 0);
    names.emplace_back(name.data());
  }
  return names;
}

TEST(TcpStream, IsNotPacedInsideOneMachine) {
  Loop loop;
  const StreamPair streams = TcpPair(loop);
  // Whoever started this test may have left it connections of others.
  EXPECT_THAT(CongestionControls(), ::testing::IsSupersetOf({"reno", "reno"}));
}

// What a stream does to frames, and what the receiver must say.
class FaultTest : public ::testing::Test {
 protected:
  // Sends three frames through the faults; the first error of the receiver, or success.
  Status Receive(const StreamFaults& faults) {
    auto [a, b] = MakeInprocPair(loop_);
    Ends ends(loop_, {MakeFaulty(loop_, std::move(a), faults), std::move(b)});
    const auto bytes = Pattern(100, 7);
    std::vector<std::vector<std::byte>> got(3, std::vector<std::byte>(100));
    std::vector<Completion> sent(3), received(3);
    for (std::size_t i = 0; i < 3; ++i) {
      ends.right->Receive({.tag = i}, got[i], received[i].ForReceive());
      ends.left->Send(FrameType::kData, i, bytes, sent[i].ForSend());
    }
    for (Completion& completion : sent) (void)completion.Wait(InAMoment());
    ends.left->Leave();
    Status first;
    for (Completion& completion : received) {
      const Status status = completion.Wait(InAMoment());
      if (first.ok()) first = status;
    }
    return first;
  }

  Loop loop_;
};

TEST_F(FaultTest, WithoutFaultsEverythingArrives) { EXPECT_THAT(Receive({}), IsOk()); }

TEST_F(FaultTest, DelaysLoseNothing) {
  EXPECT_THAT(
      Receive({.delay = std::chrono::milliseconds(1), .jitter = std::chrono::milliseconds(2)}),
      IsOk());
}

TEST_F(FaultTest, ALostFrameIsNoticed) {
  EXPECT_THAT(Receive({.drop_write = 1}), StatusIs(Code::kProtocol, HasSubstr("frame 2 came")));
}

TEST_F(FaultTest, SwappedFramesAreNoticed) {
  EXPECT_THAT(Receive({.swap_write = 0}), StatusIs(Code::kProtocol, HasSubstr("frame 1 came")));
}

TEST_F(FaultTest, EveryFlippedByteIsNoticed) {
  for (std::uint64_t at = 0; at < 2 * 156; ++at) {
    const Status status = Receive({.flip_bit_at = at});
    EXPECT_FALSE(status.ok()) << "byte " << at;
  }
}

TEST_F(FaultTest, ACutAtEveryByteIsALostPeer) {
  for (std::uint64_t at = 0; at < 3 * 156; at += 1) {
    EXPECT_THAT(Receive({.cut_after_bytes = at}), StatusIs(Code::kPeerLost, _)) << "byte " << at;
  }
}

TEST_F(FaultTest, ASenderIsToldWhomItHasLost) {
  auto [a, b] = MakeInprocPair(loop_);
  Ends ends(loop_, {MakeFaulty(loop_, std::move(a), {.cut_after_bytes = 10}), std::move(b)},
            {.peer = "rank 3"});
  const auto bytes = Pattern(100, 7);
  Completion sent;
  ends.left->Send(FrameType::kData, 0, bytes, sent.ForSend());
  EXPECT_THAT(sent.Wait(InAMoment()), StatusIs(Code::kPeerLost, HasSubstr("lost rank 3: cut by")));
}

}  // namespace
}  // namespace paceline::net
