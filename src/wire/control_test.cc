#include "wire/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace paceline::wire {
namespace {

using ::paceline::testing::StatusIs;

std::vector<Control> OneOfEach() {
  const Member at{Rank(0), "host", "10.0.0.1:4321", "machine"};
  return {
      Register{MemberId(3),
               77,
               at,
               1234,
               "model=vgg16;seed=1",
               Generation(5),
               true,
               true,
               {true, Step(41)},
               64'000},
      Ready{},
      Heartbeat{9, Step(41), "backward", 120, 1 << 20},
      Stopped{Generation(5), {true, Step(41)}, "10.0.0.1:4322", 1, "rank 1 closed its connection"},
      Leaving{},
      Finished{Step(100), true},
      Registered{MemberId(3), 0xABCDEF, 500, 5000},
      HeartbeatAck{9},
      Pause{Generation(5), true, "worker 4 joins"},
      Assignment{0xABCDEF, Generation(6), {{MemberId(3), 1234, at, {true, Step(41)}}}, "why"},
      Release{Code::kFenced, true, "silent for 5 s"},
      LeaseRequest{},
      LeaseProgress{7, 640},
      LeaseGrant{7, 7000, 1000, 640},
  };
}

TEST(ControlTest, EveryMessageComesBackAsItWas) {
  ASSERT_EQ(OneOfEach().size(), std::variant_size_v<Control>);
  for (const Control& message : OneOfEach()) {
    const auto decoded = DecodeControl(EncodeControl(message));
    ASSERT_TRUE(decoded.ok()) << ControlName(message) << ": " << decoded.status().message();
    EXPECT_TRUE(*decoded == message) << ControlName(message);
  }
}

TEST(ControlTest, WhatIsCutOrLongerIsRefused) {
  for (const Control& message : OneOfEach()) {
    std::vector<std::byte> bytes = EncodeControl(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THAT(DecodeControl(std::span(bytes).first(length)),
                  StatusIs(Code::kProtocol, ::testing::_))
          << ControlName(message) << " cut at " << length;
    }
    bytes.push_back(std::byte{0});
    EXPECT_THAT(DecodeControl(bytes), StatusIs(Code::kProtocol, ::testing::_))
        << ControlName(message);
  }
}

TEST(ControlTest, AnUnknownKindIsRefused) {
  const std::vector<std::byte> bytes{std::byte{200}};
  EXPECT_THAT(DecodeControl(bytes), StatusIs(Code::kProtocol, ::testing::_));
}

TEST(ControlTest, ReasonsStayOneLineAndShort) {
  const Control message = Pause{Generation(1), false, "a\nb" + std::string(1000, 'x')};
  const auto decoded = DecodeControl(EncodeControl(message));
  ASSERT_TRUE(decoded.ok());
  const std::string& why = std::get<Pause>(*decoded).why;
  EXPECT_EQ(why.find('\n'), std::string::npos);
  EXPECT_LE(why.size(), 400U);
}

TEST(ControlTest, AnAssignmentIsAlsoAView) {
  const auto assignment = std::get<Assignment>(OneOfEach()[9]);
  const View view = assignment.AsView();
  EXPECT_EQ(view.cluster, assignment.cluster);
  EXPECT_EQ(view.generation, assignment.generation);
  ASSERT_EQ(view.members.size(), 1U);
  EXPECT_EQ(view.members[0], assignment.seats[0].at);
}

}  // namespace
}  // namespace paceline::wire
