#include "wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"
#include "wire/bytes.h"
#include "wire/crc32c.h"
#include "wire/endian.h"
#include "wire/messages.h"

namespace paceline::wire {
namespace {

using paceline::testing::StatusIs;
using ::testing::_;

FrameHeader Example() {
  return {.type = FrameType::kData,
          .cluster = 0x0123456789ABCDEF,
          .generation = Generation(7),
          .sequence = 42,
          .tag = 0xFEDCBA9876543210,
          .length = 4096,
          .payload_crc = 0xDEADBEEF};
}

TEST(Frame, HeaderComesBackAsItWas) {
  const auto bytes = EncodeHeader(Example());
  const auto decoded = DecodeHeader(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(*decoded, Example());
}

TEST(Frame, HeaderHasTheDocumentedBytes) {
  const auto bytes = EncodeHeader(Example());
  EXPECT_EQ(LoadU32(bytes.data()), kFrameMagic);
  EXPECT_EQ(bytes[0], std::byte{'P'});
  EXPECT_EQ(bytes[3], std::byte{'1'});
  EXPECT_EQ(bytes[4], std::byte{kProtocolVersion});
  EXPECT_EQ(bytes[5], std::byte{32});
  EXPECT_EQ(LoadU64(bytes.data() + 8), 0x0123456789ABCDEFU);
  EXPECT_EQ(LoadU64(bytes.data() + 24), 42U);
  EXPECT_EQ(LoadU32(bytes.data() + 40), 4096U);
  EXPECT_EQ(LoadU32(bytes.data() + 52), Crc32c(std::span(bytes).first(52)));
}

TEST(Frame, EveryFlippedBitIsRefused) {
  const auto good = EncodeHeader(Example());
  for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(DecodeHeader(bad).ok()) << "bit " << bit;
  }
}

TEST(Frame, AHugeLengthIsRefusedForEachType) {
  for (const FrameType type : {FrameType::kHello, FrameType::kJoin, FrameType::kData}) {
    FrameHeader header = Example();
    header.type = type;
    header.length = static_cast<std::uint32_t>(MaxPayload(type));
    EXPECT_TRUE(DecodeHeader(EncodeHeader(header)).ok());
    header.length += 1;
    EXPECT_THAT(DecodeHeader(EncodeHeader(header)).status(), StatusIs(Code::kProtocol, _));
    header.length = 0xFFFFFFFF;
    EXPECT_THAT(DecodeHeader(EncodeHeader(header)).status(), StatusIs(Code::kProtocol, _));
  }
}

TEST(Frame, AnotherVersionIsAMismatchThatNamesBoth) {
  auto bytes = EncodeHeader(Example());
  bytes[4] = std::byte{9};
  const Status status = DecodeHeader(bytes).status();
  EXPECT_THAT(status, StatusIs(Code::kMismatch, _));
  EXPECT_NE(status.message().find("theirs 9"), std::string::npos);
}

template <typename Message>
void ExpectEveryTruncationRefused(const Message& message) {
  const std::vector<std::byte> bytes = message.Encode();
  EXPECT_TRUE(Message::Decode(bytes).ok());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(Message::Decode(std::span(bytes).first(length)).status(),
                StatusIs(Code::kProtocol, _))
        << length;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THAT(Message::Decode(longer).status(), StatusIs(Code::kProtocol, _));
}

View ExampleView() {
  return {
      .cluster = 5,
      .generation = Generation(3),
      .members = {{Rank(0), "a", "127.0.0.1:1", "kernel"}, {Rank(1), "b", "[::1]:2", "kernel"}}};
}

TEST(Messages, TruncatedOrTooLongIsRefused) {
  ExpectEveryTruncationRefused(Hello{.role = Role::kWorker, .rank = Rank(3)});
  ExpectEveryTruncationRefused(Challenge{.role = Role::kCoordinator});
  ExpectEveryTruncationRefused(Proof{});
  ExpectEveryTruncationRefused(Failure{.code = Code::kTimeout, .blamed = 2, .text = "late"});
  ExpectEveryTruncationRefused(Join{.member = ExampleView().members[1], .world = 2});
  ExpectEveryTruncationRefused(ExampleView());
  ExpectEveryTruncationRefused(Local{.socket = "x"});
}

TEST(Messages, AViewComesBackAsItWas) {
  const auto view = View::Decode(ExampleView().Encode());
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(*view, ExampleView());
}

TEST(Messages, AViewWithRanksOutOfOrderIsRefused) {
  View view = ExampleView();
  view.members[1].rank = Rank(0);
  EXPECT_THAT(View::Decode(view.Encode()).status(), StatusIs(Code::kProtocol, _));
}

TEST(Messages, AFailureIsOneLineAndFitsIntoAHandshake) {
  const Failure failure{.code = Code::kMismatch, .text = std::string(5000, 'x') + "\n"};
  const auto bytes = failure.Encode();
  EXPECT_LE(bytes.size(), MaxPayload(FrameType::kAbort));
  EXPECT_TRUE(Failure::Decode(bytes).ok());
  const auto lines = Failure::Decode(Failure{.text = "a\nb"}.Encode());
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ(lines->text, "a b");
}

TEST(Messages, ControlCharactersFromAPeerAreRefused) {
  ByteWriter writer;
  writer.Number(std::uint8_t{1});
  writer.Number(std::uint64_t{0});
  writer.Text("evil\033[2J");
  EXPECT_THAT(Failure::Decode(writer.Take()).status(), StatusIs(Code::kProtocol, _));
}

}  // namespace
}  // namespace paceline::wire
