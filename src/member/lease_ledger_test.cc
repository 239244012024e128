#include "member/lease_ledger.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "member/coordinator_logic.h"
#include "testing/status_matchers.h"

namespace paceline::member {
namespace {

using namespace std::chrono_literals;
using ::paceline::testing::StatusIs;

TEST(LeaseLedgerTest, EveryPositionIsLentOnceAndTheLastLeaseIsShort) {
  LeaseLedger ledger({.total = 25, .size = 10});
  std::uint64_t next = 0;
  for (std::uint64_t member = 1; member <= 3; ++member) {
    const auto lease = ledger.Take(MemberId(member));
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->range.begin, next);
    next += lease->range.count;
  }
  EXPECT_EQ(next, 25U);
  EXPECT_FALSE(ledger.Take(MemberId(4)));
  EXPECT_FALSE(ledger.complete());
}

TEST(LeaseLedgerTest, WhoAsksTwiceGetsTheSame) {
  LeaseLedger ledger({.total = 25, .size = 10});
  EXPECT_EQ(ledger.Take(MemberId(1)), ledger.Take(MemberId(1)));
}

TEST(LeaseLedgerTest, TheNextHolderContinuesWhereTheDeadOneWas) {
  LeaseLedger ledger({.total = 25, .size = 10});
  (void)ledger.Take(MemberId(1));
  (void)ledger.Take(MemberId(2));
  EXPECT_THAT(ledger.Advance(MemberId(1), 0, 4), StatusIs(Code::kOk, ::testing::_));
  EXPECT_EQ(ledger.GiveBack(MemberId(1)).size(), 1U);
  const auto again = ledger.Take(MemberId(3));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->number, 0U);
  EXPECT_EQ(again->done, 4U);
  EXPECT_THAT(ledger.Advance(MemberId(1), 0, 10), StatusIs(Code::kFenced, ::testing::_));
  EXPECT_EQ(ledger.positions_done(), 4U);
}

TEST(LeaseLedgerTest, ProgressNeverGoesBackAndNotBeyondTheEnd) {
  LeaseLedger ledger({.total = 25, .size = 10});
  (void)ledger.Take(MemberId(1));
  ASSERT_TRUE(ledger.Advance(MemberId(1), 0, 7).ok());
  ASSERT_TRUE(ledger.Advance(MemberId(1), 0, 3).ok());
  EXPECT_EQ(ledger.open().at(0).done, 7U);
  EXPECT_THAT(ledger.Advance(MemberId(1), 0, 11), StatusIs(Code::kProtocol, ::testing::_));
  const auto finished = ledger.Advance(MemberId(1), 0, 10);
  ASSERT_TRUE(finished.ok());
  EXPECT_TRUE(*finished);
}

LeaseLedger Again(const LeaseLedger& ledger, bool* ok = nullptr, std::size_t cut = 0) {
  wire::ByteWriter writer;
  ledger.Write(writer);
  std::vector<std::byte> bytes = writer.Take();
  bytes.resize(bytes.size() - cut);
  wire::ByteReader reader(bytes);
  LeaseLedger read = LeaseLedger::Read(reader);
  if (ok != nullptr) *ok = reader.Finish("ledger").ok();
  return read;
}

TEST(LeaseLedgerTest, SurvivesBeingWrittenAndNoCutIsTaken) {
  LeaseLedger ledger({.total = 100, .size = 7});
  for (std::uint64_t member = 1; member < 6; ++member) (void)ledger.Take(MemberId(member));
  ASSERT_TRUE(ledger.Advance(MemberId(2), 1, 7).ok());
  ASSERT_TRUE(ledger.Advance(MemberId(3), 2, 5).ok());
  (void)ledger.GiveBack(MemberId(4));
  bool ok = false;
  EXPECT_EQ(Again(ledger, &ok), ledger);
  EXPECT_TRUE(ok);
  for (std::size_t cut = 1; cut < 60; ++cut) {
    (void)Again(ledger, &ok, cut);
    EXPECT_FALSE(ok) << cut;
  }
}

// A job of leases: workers come, compute, die, are cut off from a coordinator that dies and comes
// back with what it had saved. What applies batches is modelled by a set, as a server that knows
// (lease, batch). A failing seed is printed and repeats exactly.
class LeasedJob {
 public:
  explicit LeasedJob(std::uint64_t seed) : random_(seed, Purpose::kTest, 3, 0) {
    options_.min_workers = 1;
    options_.start_workers = options_.max_workers = 4;
    total_ = 100 + random_.Below(200);
    options_.lease_samples = 1 + random_.Below(30);
    Restart({.cluster = 1});
  }

  void Run() {
    for (int turn = 0; turn < 20'000 && !end_; ++turn) {
      if (workers_.size() < 4) Join();
      Worker& worker = workers_[random_.Below(static_cast<std::uint32_t>(workers_.size()))];
      const std::uint32_t dice = random_.Below(100);
      if (dice < 3) {
        const ConnectionId gone = worker.connection;
        std::erase_if(workers_, [&](const Worker& w) { return w.connection == gone; });
        Take(logic_->OnClosed(gone, now_));
      } else if (dice < 5) {
        if (saved_) Restart(CoordinatorState(*saved_));
      } else {
        Work(worker);
      }
      now_ += 1ms;
      Take(logic_->OnTick(now_));
    }
    ASSERT_TRUE(end_) << "the job never ended";
    EXPECT_EQ(end_->code, Code::kOk) << end_->why;
    EXPECT_EQ(applied_.size(), total_);
  }

 private:
  struct Worker {
    ConnectionId connection = 0;
    std::uint64_t incarnation = 0;
    MemberId member;
    Generation generation;
    std::optional<wire::LeaseGrant> lease;
  };

  void Join() {
    Worker worker{.connection = ++connections_, .incarnation = ++incarnations_};
    workers_.push_back(worker);
    Register(workers_.back());
    Say(connections_, wire::LeaseRequest{});
  }
  void Register(const Worker& worker) {
    Take(logic_->OnRegister(worker.connection,
                            {.member = worker.member,
                             .incarnation = worker.incarnation,
                             .self = {Rank(0), "host", "address", "machine"},
                             .generation = worker.generation,
                             .ready = true,
                             .samples = total_},
                            now_));
  }
  // Applies a few samples of its lease, and says so, or dies before it does.
  void Work(Worker& worker) {
    if (!worker.lease) return;
    wire::LeaseGrant& lease = *worker.lease;
    const std::uint64_t more =
        std::min<std::uint64_t>(1 + random_.Below(5), lease.count - lease.done);
    for (std::uint64_t i = 0; i < more; ++i) applied_.insert(lease.begin + lease.done + i);
    lease.done += more;
    if (random_.Below(4) == 0) return;
    const ConnectionId connection = worker.connection;
    const bool finished = lease.done == lease.count;
    const wire::LeaseProgress progress{lease.lease, lease.done};
    if (finished) worker.lease.reset();
    Say(connection, progress);
    if (finished && !end_) Say(connection, wire::LeaseRequest{});
  }
  // The coordinator dies; the next one knows what was saved, and the workers come back to it.
  void Restart(const CoordinatorState& saved) {
    auto state = CoordinatorState::Decode(saved.Encode());
    ASSERT_TRUE(state.ok()) << state.status().message();
    logic_.emplace(options_, *state, now_);
    for (Worker& worker : workers_) {
      worker.connection = ++connections_;
      Register(worker);
      if (worker.lease) {
        Say(worker.connection, wire::LeaseProgress{worker.lease->lease, worker.lease->done});
      } else {
        Say(worker.connection, wire::LeaseRequest{});
      }
    }
  }
  void Say(ConnectionId connection, const wire::Control& message) {
    Take(logic_->OnMessage(connection, message, now_));
  }
  void Take(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* save = std::get_if<SaveState>(&action)) saved_ = save->state;
      if (const auto* end = std::get_if<EndRun>(&action)) end_ = *end;
      const auto* send = std::get_if<SendControl>(&action);
      if (send == nullptr) continue;
      for (Worker& worker : workers_) {
        if (worker.connection == send->to) Hear(worker, send->message);
      }
    }
  }
  void Hear(Worker& worker, const wire::Control& message) {
    if (const auto* registered = std::get_if<wire::Registered>(&message)) {
      worker.member = registered->member;
    } else if (const auto* view = std::get_if<wire::Assignment>(&message)) {
      worker.generation = view->generation;
    } else if (const auto* grant = std::get_if<wire::LeaseGrant>(&message)) {
      worker.lease = *grant;
      for (const Worker& other : workers_) {
        if (other.member == worker.member || !other.lease) continue;
        EXPECT_NE(other.lease->lease, grant->lease) << "lent to two workers at once";
      }
    }
  }

  CounterRng random_;
  std::uint64_t total_ = 0;
  MembershipOptions options_;
  std::optional<CoordinatorLogic> logic_;
  Instant now_ = 1000s;
  std::vector<Worker> workers_;
  ConnectionId connections_ = 0;
  std::uint64_t incarnations_ = 0;
  std::optional<CoordinatorState> saved_;
  std::optional<EndRun> end_;
  std::set<std::uint64_t> applied_;
};

TEST(LeasedJobTest, WhoeverDiesEverySampleIsComputed) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LeasedJob(seed).Run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace paceline::member
