#include "net/acceptor.h"

#include <sys/stat.h>

#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/endpoint.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "wire/crc32c.h"

namespace paceline::net {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

auto Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }

class AcceptorTest : public ::testing::Test {
 protected:
  void Listen(AcceptorOptions options = {}) {
    options.secret = secret_;
    options.self = {wire::Role::kWorker, Rank(0)};
    auto acceptor = Acceptor::Listen(loop_, options);
    ASSERT_THAT(acceptor, IsOk());
    acceptor_ = std::move(*acceptor);
    acceptor_->Open(context_, [this](std::unique_ptr<Connection> connection, const Identity& peer) {
      accepted_.set_value({std::move(connection), peer});
      accepted_ = {};
    });
  }

  struct Accepted {
    std::unique_ptr<Connection> connection;
    Identity peer;
  };

  ConnectOptions Caller() const {
    return {.secret = secret_,
            .self = {wire::Role::kWorker, Rank(3)},
            .context = context_,
            .deadline = Soon()};
  }

  // A connection that knows nothing of handshakes.
  std::unique_ptr<ByteStream> Raw() {
    auto stream = ConnectTcp(loop_, acceptor_->endpoint(), std::chrono::seconds(10));
    EXPECT_THAT(stream, IsOk());
    return std::move(*stream);
  }

  void Write(ByteStream& stream, std::span<const std::byte> bytes) {
    std::promise<void> done;
    loop_.Post([&] { stream.WriteOnLoop({bytes, {}}, [&](const Status&) { done.set_value(); }); });
    done.get_future().wait();
  }

  // So many turns of the loop later.
  void CloseAfterOnLoop(int turns) {
    if (turns == 0) return acceptor_.reset();
    loop_.Post([this, turns] { CloseAfterOnLoop(turns - 1); });
  }

  // Returns when the other side has closed.
  void AwaitEnd(ByteStream& stream) {
    std::byte byte{};
    for (bool open = true; open;) {
      std::promise<bool> done;
      loop_.Post([&] {
        stream.ReadOnLoop({&byte, 1}, [&](const Status& status) { done.set_value(status.ok()); });
      });
      open = done.get_future().get();
    }
  }

  Loop loop_;
  Secret secret_ = *Secret::Generate();
  HandshakeContext context_{.cluster = 77, .generation = Generation(2)};
  std::promise<Accepted> accepted_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, BothSidesKnowWhoTheyTalkTo) {
  Listen();
  auto future = accepted_.get_future();
  auto connection = ConnectTo(loop_, acceptor_->endpoint(), "rank 0", Caller());
  ASSERT_THAT(connection, IsOk());
  const Accepted accepted = future.get();
  EXPECT_EQ(accepted.peer, (Identity{wire::Role::kWorker, Rank(3)}));
  std::vector<std::byte> got(4), bytes(4, std::byte{9});
  Completion sent, received;
  accepted.connection->Receive({.tag = 1}, got, received.ForReceive());
  (*connection)->Send(wire::FrameType::kData, 1, bytes, sent.ForSend());
  EXPECT_THAT(received.Wait(Soon()), IsOk());
  EXPECT_EQ(got, bytes);
  EXPECT_THAT(sent.Wait(Soon()), IsOk());
}

// A greeting that has arrived must not be answered on a connection that is gone.
TEST_F(AcceptorTest, ClosesWhileCallersGreet) {
  const auto hello = wire::Hello{.role = wire::Role::kWorker, .rank = Rank(3)}.Encode();
  const auto header = wire::EncodeHeader({.type = wire::FrameType::kHello,
                                          .cluster = context_.cluster,
                                          .generation = context_.generation,
                                          .length = static_cast<std::uint32_t>(hello.size()),
                                          .payload_crc = wire::Crc32c(hello)});
  std::vector<std::byte> greeting(header.begin(), header.end());
  greeting.insert(greeting.end(), hello.begin(), hello.end());
  for (int turns = 0; turns < 40; ++turns) {
    Listen();
    const auto caller = Raw();
    loop_.Post([&] {
      caller->WriteOnLoop({greeting, {}}, [&](const Status&) { CloseAfterOnLoop(turns); });
    });
    AwaitEnd(*caller);
  }
}

TEST_F(AcceptorTest, AWrongSecretIsRefusedOnBothSides) {
  Listen();
  ConnectOptions options = Caller();
  options.secret = *Secret::Generate();
  EXPECT_THAT(ConnectTo(loop_, acceptor_->endpoint(), "rank 0", options),
              StatusIs(Code::kUnauthenticated, HasSubstr("wrong secret")));
}

TEST_F(AcceptorTest, AnotherJobOrGenerationIsRefused) {
  Listen();
  ConnectOptions options = Caller();
  options.context.cluster = 78;
  EXPECT_THAT(ConnectTo(loop_, acceptor_->endpoint(), "rank 0", options),
              StatusIs(Code::kMismatch, HasSubstr("another job")));
  options = Caller();
  options.context.generation = Generation(1);
  EXPECT_THAT(ConnectTo(loop_, acceptor_->endpoint(), "rank 0", options),
              StatusIs(Code::kStaleGeneration, _));
}

TEST_F(AcceptorTest, GarbageIsCutOffAndTheNextCallerIsServed) {
  Listen();
  const std::string http =
      "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nX: 0123456789\r\n\r\n";
  const auto raw = Raw();
  Write(*raw, std::as_bytes(std::span(http)));
  AwaitEnd(*raw);
  auto future = accepted_.get_future();
  EXPECT_THAT(ConnectTo(loop_, acceptor_->endpoint(), "rank 0", Caller()), IsOk());
  (void)future.get();
  EXPECT_EQ(acceptor_->refused(), 1U);
}

TEST_F(AcceptorTest, AHugeLengthIsCutOffWithoutTakingMemory) {
  Listen();
  const wire::FrameHeader header{.type = wire::FrameType::kHello,
                                 .cluster = 77,
                                 .generation = Generation(2),
                                 .length = 0xFFFFFFFF};
  const auto raw = Raw();
  Write(*raw, wire::EncodeHeader(header));
  AwaitEnd(*raw);
  EXPECT_EQ(acceptor_->refused(), 1U);
}

TEST_F(AcceptorTest, AReplayedHandshakeProvesNothing) {
  Listen();
  // The caller's side of an honest conversation, with a proof for another nonce.
  const wire::Hello hello{.role = wire::Role::kWorker, .rank = Rank(3)};
  const wire::Proof proof{secret_.Sign(hello.Encode())};
  auto stream = ConnectTcp(loop_, acceptor_->endpoint(), std::chrono::seconds(10));
  ASSERT_THAT(stream, IsOk());
  Connection connection(loop_, std::move(*stream), {77, Generation(2), "rank 0"});
  const auto hello_bytes = hello.Encode(), proof_bytes = proof.Encode();
  std::vector<std::byte> buffer(512), welcome(512);
  Completion a, b, c, d;
  connection.Send(wire::FrameType::kHello, 0, hello_bytes, a.ForSend());
  connection.Send(wire::FrameType::kProof, 0, proof_bytes, b.ForSend());
  connection.Receive({.type = wire::FrameType::kChallenge, .exact = false}, buffer, c.ForReceive());
  connection.Receive({.type = wire::FrameType::kWelcome, .exact = false}, welcome, d.ForReceive());
  EXPECT_THAT(c.Wait(Soon()), IsOk());
  EXPECT_THAT(d.Wait(Soon()), StatusIs(Code::kUnauthenticated, _));
  (void)a.Wait(Soon());
  (void)b.Wait(Soon());
}

TEST_F(AcceptorTest, SlowCallersAreEndedAndDoNotKeepOthersOut) {
  Listen({.max_strangers = 4, .handshake_deadline = std::chrono::milliseconds(50)});
  std::vector<std::unique_ptr<ByteStream>> slow;
  const std::array<std::byte, 1> one{std::byte{'P'}};
  for (int i = 0; i < 20; ++i) {
    slow.push_back(Raw());
    Write(*slow.back(), one);
  }
  for (const auto& stream : slow) AwaitEnd(*stream);
  auto future = accepted_.get_future();
  EXPECT_THAT(ConnectTo(loop_, acceptor_->endpoint(), "rank 0", Caller()), IsOk());
  (void)future.get();
  EXPECT_EQ(acceptor_->refused(), 20U);
}

TEST_F(AcceptorTest, NobodyListensBeyondLoopbackWithoutASecret) {
  EXPECT_THAT(Acceptor::Listen(loop_, {.bind = {"0.0.0.0", 0}}),
              StatusIs(Code::kUnauthenticated, HasSubstr("without a secret")));
  EXPECT_THAT(Acceptor::Listen(loop_, {.bind = {"0.0.0.0", 0}, .secret = secret_}), IsOk());
}

TEST_F(AcceptorTest, ConnectingToNobodyEndsAtTheDeadline) {
  Listen();
  const Endpoint gone = acceptor_->endpoint();
  acceptor_.reset();
  ConnectOptions options = Caller();
  options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  EXPECT_THAT(ConnectTo(loop_, gone, "rank 0", options), StatusIs(Code::kTimeout, _));
}

TEST(Secret, ComesFromTheEnvironmentOrAPrivateFile) {
  const testing::TempDir dir;
  const Secret secret = *Secret::Generate();
  const std::string path = (dir.path() / "secret").string();
  std::ofstream(path) << secret.ToHex() << "\n";
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(Secret::FromFile(path), StatusIs(Code::kUnauthenticated, HasSubstr("chmod 600")));
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  auto read = Secret::FromEnvironment([&](const char* name) -> const char* {
    return std::string(name) == "PACELINE_SECRET_FILE" ? path.c_str() : nullptr;
  });
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->ToHex(), secret.ToHex());
  EXPECT_THAT(Secret::FromEnvironment([](const char*) { return nullptr; }),
              StatusIs(Code::kNotFound, _));
}

TEST(Secret, AMessageNeverShowsIt) {
  const Status status = Secret::FromHex(std::string(63, 'a') + "!").status();
  EXPECT_THAT(status, StatusIs(Code::kUnauthenticated, _));
  EXPECT_EQ(status.message().find("aaaa"), std::string::npos);
}

TEST(Secret, SignsAsRfc4231Says) {
  // Test case 2 of RFC 4231 has a short key; case with a 32-byte key computed independently:
  // HMAC-SHA-256(key = 32 x 0x0b, "Hi There").
  const Secret secret = *Secret::FromHex(std::string("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b") +
                                         "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b");
  const std::string text = "Hi There";
  const wire::Digest digest = secret.Sign(std::as_bytes(std::span(text)));
  std::string hex;
  for (const std::byte b : digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned>(b) / 16];
    hex += kDigits[static_cast<unsigned>(b) % 16];
  }
  EXPECT_EQ(hex, "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7");
}

TEST(Endpoint, IsReadAndWritten) {
  EXPECT_EQ(*ParseEndpoint("10.0.0.1:80"), (Endpoint{"10.0.0.1", 80}));
  EXPECT_EQ(*ParseEndpoint("[::1]:80"), (Endpoint{"::1", 80}));
  EXPECT_EQ((Endpoint{"::1", 80}).ToString(), "[::1]:80");
  for (const char* bad : {"", "host", "host:", ":80", "host:99999", "host:8x", "a:b:80"}) {
    EXPECT_THAT(ParseEndpoint(bad), StatusIs(Code::kInvalidArgument, HasSubstr("host:port")))
        << bad;
  }
}

TEST(Endpoint, KnowsLoopback) {
  EXPECT_TRUE(IsLoopback("127.0.0.1"));
  EXPECT_TRUE(IsLoopback("localhost"));
  EXPECT_TRUE(IsLoopback("::1"));
  EXPECT_FALSE(IsLoopback("0.0.0.0"));
  EXPECT_FALSE(IsLoopback("10.0.0.1"));
}

}  // namespace
}  // namespace paceline::net
