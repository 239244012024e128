#include "member/worker_logic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::member {
namespace {

using namespace std::chrono_literals;

constexpr MemberId kMember(3);

class WorkerLogicTest : public ::testing::Test {
 protected:
  void Register(Instant now) {
    logic_.OnConnected(now);
    logic_.OnControl(wire::Registered{kMember, 7, 500, 5'000});
  }
  void Assign(std::uint64_t generation) {
    logic_.OnControl(wire::Assignment{.cluster = 7, .generation = Generation(generation)});
  }

  WorkerLogic logic_{wire::Member{Rank(0), "host", "127.0.0.1:1", "machine"}, 99, 1234, "a=1"};
};

TEST_F(WorkerLogicTest, TellsWhoItIsAgainOnANewConnection) {
  EXPECT_EQ(logic_.OnConnected(0s).member, MemberId(0));
  logic_.OnControl(wire::Registered{kMember, 7, 500, 5'000});
  logic_.SetReady();
  Assign(4);
  ASSERT_TRUE(logic_.TakeView());
  logic_.Commit(Step(12));
  logic_.OnClosed();
  const wire::Register again = logic_.OnConnected(1s);
  EXPECT_EQ(again.member, kMember);
  EXPECT_EQ(again.incarnation, 99U);
  EXPECT_EQ(again.generation, Generation(4));
  EXPECT_TRUE(again.ready);
  EXPECT_FALSE(again.stopped);
  EXPECT_EQ(again.progress, (wire::Progress{true, Step(12)}));
}

TEST_F(WorkerLogicTest, MayCommitUntilTheDeadTimeAfterTheLastAnswer) {
  EXPECT_FALSE(logic_.MayCommit(0s));
  Register(1s);
  EXPECT_TRUE(logic_.MayCommit(5s));
  EXPECT_FALSE(logic_.MayCommit(6s));
  const wire::Heartbeat beat = logic_.MakeHeartbeat(3s);
  EXPECT_FALSE(logic_.MayCommit(6s));  // sent is not heard
  logic_.OnControl(wire::HeartbeatAck{beat.sequence});
  EXPECT_TRUE(logic_.MayCommit(7s));
  EXPECT_FALSE(logic_.MayCommit(8s));  // counted from when it was sent
}

TEST_F(WorkerLogicTest, NoticesAConnectionOnWhichNobodyAnswers) {
  Register(0s);
  const wire::Heartbeat beat = logic_.MakeHeartbeat(1s);
  logic_.MakeHeartbeat(2s);
  EXPECT_FALSE(logic_.Unheard(5s));
  EXPECT_TRUE(logic_.Unheard(6s));
  logic_.OnControl(wire::HeartbeatAck{beat.sequence});
  EXPECT_FALSE(logic_.Unheard(6s));
  EXPECT_TRUE(logic_.Unheard(7s));
  logic_.OnConnected(7s);
  EXPECT_FALSE(logic_.Unheard(20s));
}

TEST_F(WorkerLogicTest, GoesOnWhileTheCoordinatorIsDead) {
  Register(0s);
  logic_.OnClosed();
  logic_.OnRefused(4s);
  EXPECT_TRUE(logic_.MayCommit(8s));
  logic_.OnRefused(8s);
  EXPECT_TRUE(logic_.MayCommit(12s));
}

TEST_F(WorkerLogicTest, DoesNotGoOnAfterALongSleepWithoutACoordinator) {
  Register(0s);
  logic_.OnClosed();
  logic_.OnRefused(20s);  // a coordinator may have come and gone meanwhile
  EXPECT_FALSE(logic_.MayCommit(20s));
  Register(21s);
  EXPECT_TRUE(logic_.MayCommit(21s));
}

TEST_F(WorkerLogicTest, APauseEndsOnlyTheViewItIsMeantFor) {
  Register(0s);
  Assign(2);
  logic_.OnControl(wire::Pause{Generation(2), true, "worker 4 joins"});  // before it was taken
  EXPECT_FALSE(logic_.pause_at_step_end());
  ASSERT_TRUE(logic_.TakeView());
  EXPECT_TRUE(logic_.pause_at_step_end());
  EXPECT_FALSE(logic_.pause_now());
  logic_.OnControl(wire::Pause{Generation(2), false, "worker 1: silent"});
  EXPECT_TRUE(logic_.pause_now());
  logic_.OnControl(wire::Pause{Generation(2), true, "late"});  // does not make it polite again
  EXPECT_TRUE(logic_.pause_now());
  EXPECT_EQ(logic_.Stop(1, "why").generation, Generation(2));
  EXPECT_FALSE(logic_.pause_at_step_end());
  Assign(3);
  ASSERT_TRUE(logic_.TakeView());
  EXPECT_FALSE(logic_.pause_at_step_end());
}

TEST_F(WorkerLogicTest, AnOlderViewIsIgnored) {
  Register(0s);
  Assign(5);
  ASSERT_TRUE(logic_.TakeView());
  Assign(5);
  Assign(4);
  EXPECT_FALSE(logic_.TakeView());
}

TEST_F(WorkerLogicTest, AReleaseEndsTheRightToCommit) {
  Register(0s);
  logic_.OnControl(wire::Release{Code::kFenced, false, "silent"});
  EXPECT_FALSE(logic_.MayCommit(1s));
}

TEST_F(WorkerLogicTest, WhatWasNotAnsweredIsSaidAgain) {
  EXPECT_TRUE(logic_.Outstanding().empty());
  logic_.SetLeaving();
  EXPECT_TRUE(std::holds_alternative<wire::Leaving>(logic_.Outstanding().at(0)));
  logic_.SetFinished({Step(9), false});
  EXPECT_TRUE(std::holds_alternative<wire::Finished>(logic_.Outstanding().at(0)));
}

TEST_F(WorkerLogicTest, SaysAgainWhatItWantsAndWhatItHasDone) {
  (void)logic_.WantLease();
  EXPECT_TRUE(std::holds_alternative<wire::LeaseRequest>(logic_.Outstanding().at(0)));
  EXPECT_FALSE(logic_.TakeLease());
  logic_.OnControl(wire::LeaseGrant{3, 300, 100, 20});
  ASSERT_TRUE(logic_.TakeLease());
  EXPECT_FALSE(logic_.TakeLease());
  EXPECT_EQ(logic_.Advance(60), (wire::LeaseProgress{3, 60}));
  ASSERT_EQ(logic_.Outstanding().size(), 1U);
  EXPECT_EQ(std::get<wire::LeaseProgress>(logic_.Outstanding().at(0)),
            (wire::LeaseProgress{3, 60}));
}

TEST_F(WorkerLogicTest, AGrantThatComesTwiceIsTakenOnce) {
  (void)logic_.WantLease();
  logic_.OnControl(wire::LeaseGrant{3, 300, 100, 20});
  ASSERT_TRUE(logic_.TakeLease());
  logic_.OnControl(wire::LeaseGrant{3, 300, 100, 20});
  EXPECT_FALSE(logic_.TakeLease());
}

}  // namespace
}  // namespace paceline::member
