// Agents and a coordinator over real sockets; their decisions are tested without, in
// worker_logic_test, coordinator_logic_test and simulation_test.
#include "member/agent.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include <gmock/gmock.h>

#include "member/coordinator.h"
#include "testing/status_matchers.h"

namespace paceline::member {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr auto kPatience = 60s;  // only against hanging
const auto kNever = [] { return false; };

class AgentTest : public ::testing::Test {
 protected:
  void StartCoordinator(std::uint64_t min, std::uint64_t max, const net::Endpoint& bind = {}) {
    auto coordinator = Coordinator::Start(
        loop_, SystemClock(),
        {.bind = bind.port == 0 ? *net::ParseEndpoint("127.0.0.1:0") : bind,
         .secret = secret_,
         .membership = {.min_workers = min,
                        .max_workers = max,
                        .start_workers = max,
                        .heartbeat = 20ms,
                        .suspect = 20s,  // a busy machine is no reason to give anybody up
                        .dead = 40s,
                        .lease_samples = lease_samples_},
         .state = saved_,
         .save =
             [this](const CoordinatorState& state) {
               if (can_save_) saved_ = state;
               return can_save_ ? Status() : Status::Error(Code::kDisk, "the disk is full");
             },
         .on_note = [](const Note&) {},
         .on_status =
             [this](const MembershipStatus& status) {
               beating_ =
                   std::ranges::count(status.members, "step", &MembershipStatus::Line::phase);
             }});
    ASSERT_THAT(coordinator, IsOk());
    coordinator_ = std::move(*coordinator);
  }

  Result<std::unique_ptr<Agent>> Join(const std::string& fingerprint = "batch=4") {
    return Agent::Join(loop_, SystemClock(),
                       {.coordinator = coordinator_->endpoint(),
                        .secret = secret_,
                        .self = {Rank(0), "host", "127.0.0.1:1", "machine"},
                        .fingerprint = fingerprint,
                        .samples = 1000,
                        .join_deadline = std::chrono::steady_clock::now() + kPatience});
  }

  std::unique_ptr<Agent> JoinReady() {
    auto agent = Join();
    EXPECT_THAT(agent, IsOk());
    (*agent)->SetReady();
    return std::move(*agent);
  }

  static std::uint64_t GenerationOf(Agent& agent) {
    const Directive next = agent.AwaitView(kPatience, kNever);
    EXPECT_TRUE(next.view) << (next.release ? next.release->why : "");
    return next.view ? next.view->generation.value() : 0;
  }

  // A view that was broken off: the agent says so and gets another.
  static std::uint64_t NextGenerationOf(Agent& agent) {
    std::promise<void> paused;
    agent.WhenPaused([&](const std::string&) { paused.set_value(); });
    paused.get_future().wait();
    agent.Stop("127.0.0.1:2", 0, "told to stop");
    return GenerationOf(agent);
  }

  net::Loop loop_;
  net::Secret secret_ = *net::Secret::Generate();
  std::uint64_t lease_samples_ = 0;
  CoordinatorState saved_;  // loop-confined while a coordinator lives
  std::atomic<bool> can_save_ = true;
  std::atomic<std::ptrdiff_t> beating_ = 0;  // who has told this coordinator its phase
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(AgentTest, AllGetTheSameViewAndMayCommit) {
  StartCoordinator(2, 2);
  const auto a = JoinReady(), b = JoinReady();
  EXPECT_EQ(GenerationOf(*a), 1U);
  EXPECT_EQ(GenerationOf(*b), 1U);
  EXPECT_NE(a->member(), b->member());
  EXPECT_THAT(a->AwaitMayCommit(), IsOk());
  EXPECT_TRUE(a->Trusted());
}

TEST_F(AgentTest, WhoeverIsLeftGetsTheNextView) {
  StartCoordinator(1, 2);
  const auto a = JoinReady();
  auto b = JoinReady();
  EXPECT_EQ(GenerationOf(*a), 1U);
  EXPECT_EQ(GenerationOf(*b), 1U);
  b.reset();
  EXPECT_EQ(NextGenerationOf(*a), 2U);
}

TEST_F(AgentTest, ACoordinatorThatComesBackTakesItsWorkersAndItsGeneration) {
  StartCoordinator(1, 2);
  const auto a = JoinReady();
  auto b = JoinReady();
  EXPECT_EQ(GenerationOf(*a), 1U);
  EXPECT_EQ(GenerationOf(*b), 1U);
  const net::Endpoint place = coordinator_->endpoint();
  coordinator_.reset();
  a->SetPhase("step");
  b->SetPhase("step");
  EXPECT_THAT(a->AwaitMayCommit(), IsOk());  // training goes on
  StartCoordinator(1, 2, place);
  while (beating_ < 2) std::this_thread::yield();
  b.reset();
  EXPECT_EQ(NextGenerationOf(*a), 2U);
}

TEST_F(AgentTest, WhoIsNotTakenBackEndsItsViewAtOnce) {
  StartCoordinator(1, 1);
  const auto a = JoinReady();
  EXPECT_EQ(GenerationOf(*a), 1U);
  std::promise<std::string> ended;
  a->WhenPaused([&](const std::string& why) { ended.set_value(why); });
  const net::Endpoint place = coordinator_->endpoint();
  coordinator_.reset();
  saved_ = {};  // this one has never heard of it
  StartCoordinator(1, 1, place);
  EXPECT_THAT(ended.get_future().get(), HasSubstr("not part of this run"));
  const Directive next = a->AwaitView(kPatience, kNever);
  ASSERT_TRUE(next.release);
  EXPECT_EQ(next.release->code, Code::kFenced);
}

TEST_F(AgentTest, AViewThatCannotBeSavedIsNotAnnounced) {
  can_save_ = false;
  StartCoordinator(1, 1);
  const auto a = JoinReady();
  const CoordinatorEnd end = coordinator_->Wait(kNever);
  EXPECT_EQ(end.code, Code::kDisk);
  EXPECT_THAT(end.why, HasSubstr("the disk is full"));
  coordinator_.reset();
  const Directive next = a->AwaitView(0ms, kNever);
  EXPECT_FALSE(next.view);
}

TEST_F(AgentTest, AnAgentThatWaitsCanStillLeave) {
  StartCoordinator(2, 2);
  const auto a = JoinReady();
  const Directive next = a->AwaitView(kPatience, [&] {
    a->Leave();
    return false;
  });
  ASSERT_TRUE(next.release);
  EXPECT_EQ(next.release->code, Code::kOk) << next.release->why;
}

TEST_F(AgentTest, WhoDoesNotFitIsRefused) {
  StartCoordinator(1, 2);
  const auto a = JoinReady();
  EXPECT_THAT(Join("batch=8"), StatusIs(Code::kMismatch, HasSubstr("batch")));
  secret_ = *net::Secret::Generate();
  EXPECT_THAT(Join(), StatusIs(Code::kUnauthenticated, HasSubstr("secret")));
}

TEST_F(AgentTest, TheRunEndsWhenAllHaveFinished) {
  StartCoordinator(1, 1);
  auto a = JoinReady();
  EXPECT_EQ(GenerationOf(*a), 1U);
  a->Commit(Step(10));
  a->Finish({.next_step = Step(10)});
  a.reset();
  const CoordinatorEnd end = coordinator_->Wait(kNever);
  EXPECT_EQ(end.code, Code::kOk) << end.why;
}

// Takes leases and finishes them until there are none; counts their samples that were not done yet.
std::uint64_t WorkOff(Agent& agent) {
  std::uint64_t samples = 0;
  for (;;) {
    const auto next = agent.AwaitLease(kPatience, kNever);
    EXPECT_THAT(next, IsOk());
    if (!next.ok() || !*next) return samples;
    const wire::LeaseGrant& lease = **next;
    samples += lease.count - lease.done;
    agent.Advance(lease.count);
  }
}

TEST_F(AgentTest, LeasesOfADeadWorkerAreContinuedAndACoordinatorMayDie) {
  lease_samples_ = 90;
  StartCoordinator(1, 2);
  const auto a = JoinReady();
  auto b = JoinReady();
  const auto theirs = b->AwaitLease(kPatience, kNever);
  ASSERT_THAT(theirs, IsOk());
  ASSERT_TRUE(*theirs);
  b->Advance(40);
  b.reset();
  std::uint64_t samples = 0;
  for (bool inherited = false; !inherited;) {  // until the coordinator has noticed
    const auto next = a->AwaitLease(kPatience, kNever);
    ASSERT_THAT(next, IsOk());
    const std::optional<wire::LeaseGrant>& lease = *next;
    ASSERT_TRUE(lease);
    inherited = lease->lease == (*theirs)->lease;
    EXPECT_EQ(lease->done, inherited ? 40U : 0U);
    samples += lease->count - lease->done;
    if (inherited) {
      const net::Endpoint endpoint = coordinator_->endpoint();
      coordinator_.reset();
      StartCoordinator(1, 2, endpoint);
    }
    a->Advance(lease->count);
  }
  EXPECT_EQ(samples + WorkOff(*a), 960U);
}

TEST_F(AgentTest, TheLastOneToFinishEndsTheRunForAll) {
  lease_samples_ = 90;
  StartCoordinator(1, 2);
  const auto a = JoinReady(), b = JoinReady();
  auto other = std::async(std::launch::async, [&] { return WorkOff(*b); });
  const std::uint64_t mine = WorkOff(*a);
  EXPECT_EQ(mine + other.get(), 1000U);
}

}  // namespace
}  // namespace paceline::member
