#include "ps/stale_store.h"

#include <condition_variable>
#include <optional>

#include <gmock/gmock.h>

#include "ps/local_store.h"
#include "ps/server_core.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using namespace std::chrono_literals;
using testing::IsOk;
using testing::StatusIs;

constexpr std::uint32_t kStaleDim = 2;

JobSpec Job() {
  JobSpec job{
      .fingerprint = "f", .apply = Apply::kAtOnce, .trainers = 1, .tables = {}, .dense = {}};
  JobTable& table = job.tables.emplace_back();
  table.options.name = "words";
  table.options.dim = kStaleDim;
  table.options.init_range = 0.5F;
  job.dense.push_back({.name = "w", .rows = {1, 3}});
  return job;
}

// A server in this process that can be made to answer no pulls for a while.
class Gate final : public Store {
 public:
  explicit Gate(ServerCore& core) : store_(core) {}

  void Close() { Set(true, {}); }
  void Reopen() { Set(false, {}); }
  void Fail() { Set(false, Status::Error(Code::kTimeout, "server 0 stays away")); }

  Result<PullAnswer> Pull(const PullRequest& request) override {
    {
      const MutexLock lock(mutex_);
      while (closed_) changed_.wait(mutex_);
      PACELINE_TRY(failure_);
    }
    return store_.Pull(request);
  }
  Status Initialise(std::span<const float> dense) override { return store_.Initialise(dense); }
  Result<std::uint64_t> NextBatch(std::uint64_t lease) override { return store_.NextBatch(lease); }
  Status Push(const ps::Push& push, std::span<const std::uint64_t> pulled) override {
    return store_.Push(push, pulled);
  }
  Status Flush() override { return store_.Flush(); }
  std::uint64_t Acknowledged(std::uint64_t lease) override { return store_.Acknowledged(lease); }
  Result<ChangedRows> PullChanged(std::uint64_t trainer, std::uint32_t table,
                                  std::uint64_t call) override {
    return store_.PullChanged(trainer, table, call);
  }

 private:
  void Set(bool closed, const Status& failure) {
    const MutexLock lock(mutex_);
    closed_ = closed;
    failure_ = failure;
    changed_.notify_all();
  }

  LocalStore store_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool closed_ PACELINE_GUARDED_BY(mutex_) = false;
  Status failure_ PACELINE_GUARDED_BY(mutex_);
};

class StaleStoreTest : public ::testing::Test {
 protected:
  StaleStoreTest() : core_(ServerCore::Open({}).value()) {
    EXPECT_THAT(core_->Configure(Job()), IsOk());
    EXPECT_THAT(core_->Initialise(std::vector<float>{1, 2, 3}), IsOk());
    auto gate = std::make_unique<Gate>(*core_);
    gate_ = gate.get();
    store_.emplace(std::move(gate), StaleStore::Options{.job = Job(), .patience = 1ms});
  }
  ~StaleStoreTest() override { gate_->Reopen(); }

  struct Values {
    std::vector<float> rows, dense;
    std::uint64_t pushes = 0;
    friend bool operator==(const Values&, const Values&) = default;
  };
  Result<Values> Pull(const std::vector<std::int64_t>& ids) {
    Values values{.rows = std::vector<float>(ids.size() * kStaleDim),
                  .dense = std::vector<float>(3)};
    PullRequest request;
    request.rows = {{0, ids, values.rows}};
    request.dense = values.dense;
    PACELINE_ASSIGN(const PullAnswer answer, store_->Pull(request));
    values.pushes = answer.pushes.front();
    return values;
  }
  // Until the server's answers are fresh again.
  Values PullFresh(const std::vector<std::int64_t>& ids) {
    for (;;) {
      const std::uint64_t stale = store_->stale_pulls();
      Values values = Pull(ids).value();
      if (store_->stale_pulls() == stale) return values;
    }
  }
  void Push(std::uint64_t batch) {
    const std::vector<std::int64_t> ids{1};
    const std::vector<float> gradient{1, 1}, dense{1, 1, 1};
    ps::Push push{.batch = batch, .learning_rate = 0.5F, .tables = {}};
    push.tables = {{.table = 0, .dim = kStaleDim, .ids = ids, .values = gradient}};
    push.dense = dense;
    EXPECT_THAT(store_->Push(push, {}), IsOk());
  }

  std::unique_ptr<ServerCore> core_;
  Gate* gate_ = nullptr;
  std::optional<StaleStore> store_;
};

TEST_F(StaleStoreTest, AServerThatIsAwayIsRemembered) {
  const Values before = PullFresh({1, 2});
  Push(0);
  gate_->Close();
  const Values stale = Pull({1, 2}).value();
  EXPECT_EQ(stale, before);
  EXPECT_GE(store_->stale_pulls(), 1U);
  EXPECT_EQ(Pull({2, 1}).value().dense, before.dense);
  gate_->Reopen();
  const Values after = PullFresh({1, 2});
  EXPECT_EQ(after.dense, (std::vector<float>{0.5F, 1.5F, 2.5F}));
  EXPECT_EQ(after.rows[0], before.rows[0] - 0.5F);
  EXPECT_EQ(after.pushes, 1U);
}

TEST_F(StaleStoreTest, ARowThatWasNeverPulledHasItsFirstValue) {
  PullFresh({1});
  gate_->Close();
  const Values stale = Pull({7}).value();
  gate_->Reopen();
  EXPECT_EQ(stale.rows, PullFresh({7}).rows);
  EXPECT_NE(stale.rows, (std::vector<float>{0, 0}));
}

TEST_F(StaleStoreTest, WhoStaysAwayIsAnError) {
  PullFresh({1});
  gate_->Close();
  EXPECT_THAT(Pull({1}), IsOk());
  gate_->Fail();
  for (;;) {  // until the late answer is there
    const auto pulled = Pull({1});
    if (pulled.ok()) continue;
    EXPECT_THAT(pulled, StatusIs(Code::kTimeout, ::testing::HasSubstr("stays away")));
    return;
  }
}

TEST_F(StaleStoreTest, PullsThatOnlyLookAreNotAnsweredFromMemory) {
  PullFresh({1});
  Push(0);
  const std::uint64_t stale = store_->stale_pulls();
  std::vector<float> dense(3);
  PullRequest request{.touch = Touch::kPeek, .rows = {}};
  request.dense = dense;
  ASSERT_THAT(store_->Pull(request), IsOk());
  EXPECT_EQ(dense.front(), 0.5F);
  EXPECT_EQ(store_->stale_pulls(), stale);
}

}  // namespace
}  // namespace paceline::ps
