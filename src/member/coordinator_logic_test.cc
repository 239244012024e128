#include "member/coordinator_logic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::member {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Workers on connections of their own number; remembers what each was told last.
class CoordinatorLogicTest : public ::testing::Test {
 protected:
  void Start(std::uint64_t min, std::uint64_t max, CoordinatorState state = {.cluster = 7}) {
    options_.min_workers = min;
    options_.max_workers = options_.start_workers = max;
    logic_.emplace(options_, std::move(state), now_);
  }

  void Take(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* send = std::get_if<SendControl>(&action)) {
        told_[send->to].push_back(send->message);
      } else if (const auto* close = std::get_if<CloseConnection>(&action)) {
        closed_[close->connection] = *close;
      } else if (const auto* save = std::get_if<SaveState>(&action)) {
        saved_ = save->state;
      } else if (const auto* note = std::get_if<Note>(&action)) {
        notes_.push_back(*note);
      } else if (const auto* end = std::get_if<EndRun>(&action)) {
        end_ = *end;
      }
    }
  }

  static wire::Register Hello(std::uint64_t worker, bool ready = true) {
    return {.incarnation = 100 + worker,
            .self = {Rank(0), "host", "127.0.0.1:" + std::to_string(worker), "machine"},
            .pid = 1000 + worker,
            .fingerprint = "a=1",
            .ready = ready,
            .samples = 20};
  }
  void Join(std::uint64_t worker) { Take(logic_->OnRegister(worker, Hello(worker), now_)); }
  void Say(std::uint64_t worker, const wire::Control& message) {
    Take(logic_->OnMessage(worker, message, now_));
  }
  void Stop(std::uint64_t worker, std::uint64_t step, const std::string& why = "") {
    Say(worker, wire::Stopped{saved_->generation, {true, Step(step)}, "127.0.0.1:9", kNobody, why});
  }
  // Passes time, in which `alive` send heartbeats.
  void Pass(Instant time, const std::vector<std::uint64_t>& alive) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ += options_.heartbeat;
      for (const std::uint64_t worker : alive) Say(worker, wire::Heartbeat{.sequence = ++beats_});
      Take(logic_->OnTick(now_));
    }
  }

  template <typename T>
  const T* Last(std::uint64_t worker) {
    for (auto it = told_[worker].rbegin(); it != told_[worker].rend(); ++it) {
      if (const T* message = std::get_if<T>(&*it)) return message;
    }
    return nullptr;
  }
  std::vector<std::uint64_t> Members(std::uint64_t worker) {
    std::vector<std::uint64_t> ids;
    const auto* view = Last<wire::Assignment>(worker);
    if (view == nullptr) return ids;
    for (const auto& seat : view->seats) ids.push_back(seat.member.value());
    return ids;
  }
  bool Noted(const std::string& type) {
    return std::ranges::any_of(notes_, [&](const Note& note) { return note.type == type; });
  }

  static constexpr std::uint64_t kNobody = wire::Failure::kNobody;
  MembershipOptions options_;
  std::optional<CoordinatorLogic> logic_;
  Instant now_ = 1000s;
  std::uint64_t beats_ = 0;
  std::map<std::uint64_t, std::vector<wire::Control>> told_;
  std::map<std::uint64_t, CloseConnection> closed_;
  std::optional<CoordinatorState> saved_;
  std::vector<Note> notes_;
  std::optional<EndRun> end_;
};

TEST_F(CoordinatorLogicTest, BeginsWhenAllAreReady) {
  Start(1, 3);
  Join(1);
  Join(2);
  EXPECT_EQ(Last<wire::Assignment>(1), nullptr);
  Join(3);
  EXPECT_THAT(Members(1), ::testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(Members(3), ::testing::ElementsAre(1, 2, 3));
  ASSERT_TRUE(saved_);
  EXPECT_EQ(saved_->generation, Generation(1));
}

TEST_F(CoordinatorLogicTest, BeginsWithFewerAfterAWhile) {
  options_.start_timeout = 3s;
  Start(2, 3);
  Join(1);
  Join(2);
  Pass(2s, {1, 2});
  EXPECT_FALSE(saved_);
  Pass(2s, {1, 2});
  EXPECT_THAT(Members(1), ::testing::ElementsAre(1, 2));
}

TEST_F(CoordinatorLogicTest, ADeadWorkerIsReplacedByTheSurvivorsOnceTheyHaveStopped) {
  Start(1, 3);
  for (const std::uint64_t worker : {1U, 2U, 3U}) Join(worker);
  Take(logic_->OnClosed(1, now_));
  ASSERT_NE(Last<wire::Pause>(2), nullptr);
  EXPECT_FALSE(Last<wire::Pause>(2)->at_step_end);
  Stop(2, 40, "rank 0 is gone");
  EXPECT_EQ(saved_->generation, Generation(1));  // worker 3 may still be at work
  Stop(3, 41, "rank 0 is gone");
  EXPECT_EQ(saved_->generation, Generation(2));
  EXPECT_THAT(Members(2), ::testing::ElementsAre(2, 3));
  EXPECT_EQ(Last<wire::Assignment>(2)->seats[1].progress, (wire::Progress{true, Step(41)}));
}

TEST_F(CoordinatorLogicTest, AJoinerWaitsForTheEndOfAStep) {
  Start(1, 2);
  options_.start_workers = 1;
  logic_.emplace(options_, CoordinatorState{.cluster = 7}, now_);
  Join(1);
  EXPECT_THAT(Members(1), ::testing::ElementsAre(1));
  Take(logic_->OnRegister(2, Hello(2, /*ready=*/false), now_));
  EXPECT_EQ(Last<wire::Pause>(1), nullptr);  // not warmed up
  Say(2, wire::Ready{});
  ASSERT_NE(Last<wire::Pause>(1), nullptr);
  EXPECT_TRUE(Last<wire::Pause>(1)->at_step_end);
  Stop(1, 7);
  EXPECT_THAT(Members(2), ::testing::ElementsAre(1, 2));
}

TEST_F(CoordinatorLogicTest, AWorkerThatLeavesIsReleasedAndTheOthersGoOn) {
  Start(1, 2);
  Join(1);
  Join(2);
  Say(1, wire::Leaving{});
  EXPECT_TRUE(Last<wire::Pause>(2)->at_step_end);
  Stop(1, 7);
  Stop(2, 7);
  EXPECT_EQ(Last<wire::Release>(1)->code, Code::kOk);
  EXPECT_FALSE(Last<wire::Release>(1)->save);
  EXPECT_THAT(Members(2), ::testing::ElementsAre(2));
  Take(logic_->OnClosed(1, now_));
  EXPECT_EQ(saved_->generation, Generation(2));  // nobody was lost
}

TEST_F(CoordinatorLogicTest, TheLastOneWithAStateSavesItBeforeTheOthersBegin) {
  Start(1, 1);
  Join(1);
  Join(2);  // a spare without a state
  Say(1, wire::Leaving{});
  Stop(1, 7);
  EXPECT_TRUE(Last<wire::Release>(1)->save);
  EXPECT_EQ(Last<wire::Assignment>(2), nullptr);
  Take(logic_->OnClosed(1, now_));
  EXPECT_THAT(Members(2), ::testing::ElementsAre(2));
}

TEST_F(CoordinatorLogicTest, ASilentWorkerIsSuspectedThenEvicted) {
  Start(1, 2);
  Join(1);
  Join(2);
  Pass(3s, {1});
  EXPECT_TRUE(Noted("suspect"));
  EXPECT_FALSE(Noted("evict"));
  EXPECT_EQ(Last<wire::Pause>(1), nullptr);
  Pass(3s, {1});
  EXPECT_EQ(Last<wire::Release>(2)->code, Code::kFenced);
  EXPECT_EQ(closed_[2].code, Code::kFenced);
  Stop(1, 5, "paused");
  EXPECT_THAT(Members(1), ::testing::ElementsAre(1));
  // It comes back with what it believes: not wanted.
  wire::Register zombie = Hello(2);
  zombie.member = MemberId(2);
  zombie.generation = Generation(1);
  Take(logic_->OnRegister(12, zombie, now_));
  EXPECT_EQ(closed_[12].code, Code::kFenced);
}

TEST_F(CoordinatorLogicTest, BelowTheMinimumItWaitsThenEnds) {
  options_.elastic_timeout = 10s;
  Start(2, 2);
  Join(1);
  Join(2);
  Take(logic_->OnClosed(1, now_));
  Stop(2, 30, "rank 0 is gone");
  EXPECT_TRUE(Noted("waiting"));
  EXPECT_EQ(logic_->StatusAt(now_).phase, RunPhase::kWaiting);
  Pass(9s, {2});
  EXPECT_FALSE(end_);
  Pass(2s, {2});
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, Code::kBelowMinWorkers);
  EXPECT_TRUE(Last<wire::Release>(2)->save);
}

TEST_F(CoordinatorLogicTest, AReplacementEndsTheWaiting) {
  Start(2, 2);
  Join(1);
  Join(2);
  Take(logic_->OnClosed(1, now_));
  Stop(2, 30, "rank 0 is gone");
  Join(3);
  EXPECT_THAT(Members(2), ::testing::ElementsAre(2, 3));
}

TEST_F(CoordinatorLogicTest, ARestartedCoordinatorTakesItsWorkersBack) {
  Start(1, 2);
  Join(1);
  Join(2);
  const CoordinatorState saved = *saved_;
  Start(1, 2, saved);
  saved_.reset();
  for (const std::uint64_t worker : {1U, 2U}) {
    wire::Register back = Hello(worker);
    back.member = MemberId(worker);
    back.generation = Generation(1);
    back.progress = {true, Step(50)};
    Take(logic_->OnRegister(10 + worker, back, now_));
  }
  Pass(10s, {11, 12});
  EXPECT_FALSE(saved_);  // the same view goes on
  EXPECT_EQ(logic_->StatusAt(now_).phase, RunPhase::kRunning);
  EXPECT_EQ(logic_->StatusAt(now_).generation, Generation(1));
}

TEST_F(CoordinatorLogicTest, WhoDoesNotComeBackToARestartedCoordinatorIsLost) {
  Start(1, 2);
  Join(1);
  Join(2);
  Start(1, 2, *saved_);
  wire::Register back = Hello(1);
  back.member = MemberId(1);
  back.generation = Generation(1);
  Take(logic_->OnRegister(11, back, now_));
  Pass(6s, {11});
  ASSERT_NE(Last<wire::Pause>(11), nullptr);
  Stop(11, 60, "paused");
  EXPECT_EQ(saved_->generation, Generation(2));
  EXPECT_THAT(Members(11), ::testing::ElementsAre(1));
}

TEST_F(CoordinatorLogicTest, AnotherConfigurationIsRefusedWithTheDifference) {
  Start(1, 2);
  Join(1);
  wire::Register other = Hello(2);
  other.fingerprint = "a=2";
  Take(logic_->OnRegister(2, other, now_));
  EXPECT_EQ(closed_[2].code, Code::kMismatch);
  EXPECT_THAT(closed_[2].why, HasSubstr("a: 1 / 2"));
}

TEST_F(CoordinatorLogicTest, EndsWhenAllHaveFinished) {
  Start(1, 2);
  Join(1);
  Join(2);
  Say(1, wire::Finished{Step(100)});
  EXPECT_FALSE(end_);
  Say(2, wire::Finished{Step(100)});
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, Code::kOk);
}

TEST_F(CoordinatorLogicTest, WhoIsThereButCutOffAtTheEndHasFinishedToo) {
  Start(1, 2);
  Join(1);
  Join(2);
  Say(1, wire::Finished{Step(100)});
  Stop(2, 100, "rank 0 is gone");
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, Code::kOk);
}

TEST_F(CoordinatorLogicTest, AStallNamesWhatEverybodyIsDoing) {
  options_.stall = 5s;
  Start(1, 2);
  Join(1);
  Join(2);
  for (int i = 0; i < 14; ++i) {
    now_ += 500ms;
    Say(1, wire::Heartbeat{++beats_, Step(3), "wait", 900, 0});
    Say(2, wire::Heartbeat{++beats_, Step(3), "data", 6'500, 0});
    Take(logic_->OnTick(now_));
  }
  const auto stall = std::ranges::find(notes_, "stall", &Note::type);
  ASSERT_NE(stall, notes_.end());
  EXPECT_THAT(stall->why, HasSubstr("worker 2 at step 3 in data for 6.5 s"));
}

TEST_F(CoordinatorLogicTest, AWorkerThatOthersCannotReachIsSentAway) {
  Start(1, 3);
  for (const std::uint64_t worker : {1U, 2U, 3U}) Join(worker);
  for (int attempt = 0; attempt < 5 && !Noted("evict"); ++attempt) {
    for (const std::uint64_t worker : {1U, 2U, 3U}) {
      Say(worker, wire::Stopped{saved_->generation,
                                {true, Step(5)},
                                "127.0.0.1:9",
                                worker == 3 ? kNobody : 2,
                                "no connection to rank 2"});
    }
  }
  EXPECT_TRUE(Noted("evict"));
  EXPECT_EQ(closed_[3].code, Code::kFenced);
}

TEST(MembershipTest, TheStateComesFromTheMostAdvanced) {
  wire::Assignment view;
  view.seats = {{.at = {Rank(0)}, .progress = {true, Step(40)}},
                {.at = {Rank(1)}, .progress = {true, Step(41)}},
                {.at = {Rank(2)}, .progress = {false, Step(0)}}};
  StateSource source = ChooseStateSource(view);
  EXPECT_EQ(source.root, Rank(1));
  EXPECT_TRUE(source.transfer);
  EXPECT_FALSE(source.from_disk);
  view.seats = {{.at = {Rank(0)}, .progress = {true, Step(0)}},
                {.at = {Rank(1)}, .progress = {true, Step(0)}}};
  EXPECT_FALSE(ChooseStateSource(view).transfer);
  view.seats = {{.at = {Rank(0)}}, {.at = {Rank(1)}}};
  source = ChooseStateSource(view);
  EXPECT_TRUE(source.from_disk);
  EXPECT_EQ(source.root, Rank(0));
}

TEST(MembershipTest, TheSavedStateComesBack) {
  const CoordinatorState state{.cluster = 7,
                               .generation = Generation(9),
                               .last_member = MemberId(12),
                               .view = {{MemberId(3), 99, 1234, {Rank(0), "h", "a:1", "m"}}},
                               .fingerprint = "a=1"};
  const auto decoded = CoordinatorState::Decode(state.Encode());
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, state);
  EXPECT_FALSE(CoordinatorState::Decode(state.Encode().substr(0, 30)).ok());
  EXPECT_FALSE(CoordinatorState::Decode("").ok());
}

TEST_F(CoordinatorLogicTest, LeasesGoOnWithoutAnybodyStopping) {
  options_.lease_samples = 10;
  Start(1, 2);
  Join(1);
  Join(2);
  Say(1, wire::LeaseRequest{});
  Say(2, wire::LeaseRequest{});
  ASSERT_NE(Last<wire::LeaseGrant>(2), nullptr);
  Say(2, wire::LeaseProgress{1, 4});
  Take(logic_->OnClosed(2, now_));
  EXPECT_EQ(Last<wire::Pause>(1), nullptr);
  EXPECT_THAT(Members(1), ::testing::ElementsAre(1));
  Say(1, wire::LeaseProgress{0, 10});
  Say(1, wire::LeaseRequest{});
  ASSERT_NE(Last<wire::LeaseGrant>(1), nullptr);
  EXPECT_EQ(*Last<wire::LeaseGrant>(1), (wire::LeaseGrant{1, 10, 10, 4}));
  Say(1, wire::LeaseProgress{1, 10});
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, Code::kOk);
}

TEST_F(CoordinatorLogicTest, ACompleteRunEndsAgainAfterTheCoordinatorDied) {
  options_.lease_samples = 20;
  Start(1, 1);
  Join(1);
  Say(1, wire::LeaseRequest{});
  Say(1, wire::LeaseProgress{0, 20});
  ASSERT_TRUE(end_);
  end_.reset();
  logic_.emplace(options_, *saved_, now_);
  Join(1);
  EXPECT_FALSE(end_);
  Say(1, wire::LeaseRequest{});
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, Code::kOk);
}

TEST_F(CoordinatorLogicTest, AllWorkersMeanTheSameNumberOfSamples) {
  options_.lease_samples = 10;
  Start(1, 2);
  Join(1);
  wire::Register other = Hello(2);
  other.samples = 30;
  Take(logic_->OnRegister(2, other, now_));
  EXPECT_THAT(Members(1), ::testing::IsEmpty());
  ASSERT_TRUE(closed_.contains(2));
  EXPECT_EQ(closed_.at(2).code, Code::kMismatch);
}

TEST_F(CoordinatorLogicTest, BelowTheMinimumNothingIsLent) {
  options_.lease_samples = 10;
  Start(2, 2);
  Join(1);
  Join(2);
  Take(logic_->OnClosed(2, now_));
  Say(1, wire::LeaseRequest{});
  EXPECT_EQ(Last<wire::LeaseGrant>(1), nullptr);
  EXPECT_TRUE(Noted("waiting"));
  Join(3);
  EXPECT_NE(Last<wire::LeaseGrant>(1), nullptr);
}

TEST_F(CoordinatorLogicTest, ALeaverGivesItsSamplesBack) {
  options_.lease_samples = 10;
  Start(1, 2);
  Join(1);
  Join(2);
  Say(1, wire::LeaseRequest{});
  Say(1, wire::Leaving{});
  ASSERT_NE(Last<wire::Release>(1), nullptr);
  EXPECT_FALSE(Last<wire::Release>(1)->save);
  EXPECT_TRUE(Noted("lease-back"));
  Say(2, wire::LeaseRequest{});
  EXPECT_EQ(Last<wire::LeaseGrant>(2)->lease, 0U);
}

}  // namespace
}  // namespace paceline::member
