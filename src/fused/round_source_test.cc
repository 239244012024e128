#include "fused/round_source.h"

#include <condition_variable>
#include <optional>
#include <thread>

#include <gmock/gmock.h>

#include "fused/model_factory.h"
#include "job/machine.h"
#include "model/catalog.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::fused {
namespace {

using testing::IsOk;
using testing::StatusIs;

// Answers pulls at once with a version that the test sets, and says how many there were.
class CountingStore : public ps::Store {
 public:
  Status Initialise(std::span<const float>) override { return {}; }
  Result<std::uint64_t> NextBatch(std::uint64_t) override { return std::uint64_t{0}; }
  Status Push(const ps::Push&, std::span<const std::uint64_t>) override { return {}; }
  Status Flush() override { return {}; }
  std::uint64_t Acknowledged(std::uint64_t) override { return 0; }
  Result<ps::ChangedRows> PullChanged(std::uint64_t, std::uint32_t, std::uint64_t) override {
    return ps::ChangedRows{};
  }

  Result<ps::PullAnswer> Pull(const ps::PullRequest& request) override {
    const MutexLock lock(mutex_);
    const std::uint64_t pull = min_versions_.size();
    min_versions_.push_back(request.min_version);
    changed_.notify_all();
    if (pull == fails_at_) return Status::Error(Code::kPeerLost, "the server is gone");
    // So that a round can be told from another.
    if (!request.dense.empty()) request.dense.front() = static_cast<float>(pull);
    return ps::PullAnswer{.version = version_, .pushes = {pull}};
  }

  Status Announce(const ps::PullRequest& request) override {
    const MutexLock lock(mutex_);
    announced_.push_back(request.own_batches);
    return {};
  }
  std::vector<std::uint64_t> Announced() {
    const MutexLock lock(mutex_);
    return announced_;
  }

  void FailAt(std::uint64_t pull) {
    const MutexLock lock(mutex_);
    fails_at_ = pull;
  }
  void SetVersion(std::uint64_t version) {
    const MutexLock lock(mutex_);
    version_ = version;
  }
  void AwaitPulls(std::size_t count) {
    const MutexLock lock(mutex_);
    while (min_versions_.size() < count) changed_.wait(mutex_);
  }
  std::vector<std::uint64_t> MinVersions() {
    const MutexLock lock(mutex_);
    return min_versions_;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::uint64_t> min_versions_ PACELINE_GUARDED_BY(mutex_);  // by pull
  std::vector<std::uint64_t> announced_ PACELINE_GUARDED_BY(mutex_);     // own batches
  std::uint64_t version_ PACELINE_GUARDED_BY(mutex_) = 0;
  std::optional<std::uint64_t> fails_at_ PACELINE_GUARDED_BY(mutex_);
};

constexpr std::uint64_t kRounds = 8;

class RoundSourceTest : public ::testing::Test {
 protected:
  RoundSourceTest() {
    job::TrainConfig config;
    config.model = "ctr-dnn-small";
    config.seed = testing::TestSeed();
    config.shards = 1;
    config.batch = 10;
    config.train_samples = kRounds * 10;
    EXPECT_THAT(job::Resolve(config, **model::FindModel(config.model), 1), IsOk());
    model_.emplace(MakeModel(config).value());
    share_.plan = PlanOf(config, model_->model->dataset_size()).value();
    EXPECT_EQ(share_.Rounds(), kRounds);
  }

  void Open(Mode mode, std::uint64_t staleness = 0, bool ahead = true) {
    queue_.emplace(*model_->model, BatchQueue::Options{.share = share_});
    source_.emplace(
        *model_->model, 1, store_, *queue_,
        RoundSource::Options{.mode = mode, .share = share_, .staleness = staleness, .ahead = ahead},
        SystemClock());
  }

  Result<PulledRound*> Next() { return source_->Next(phases_); }

  std::optional<ModelWithData> model_;
  algo::TrainerShare share_;
  CountingStore store_;
  job::PhaseTimes phases_;
  std::optional<BatchQueue> queue_;
  std::optional<RoundSource> source_;  // ends before the queue
};

TEST_F(RoundSourceTest, OneRoundIsPulledWhileAnotherIsComputed) {
  Open(Mode::kAsync);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const auto pulled = Next();
    ASSERT_THAT(pulled, IsOk());
    const bool is_last = round + 1 == kRounds;
    store_.AwaitPulls(round + (is_last ? 1 : 2));
    // The next one went elsewhere.
    EXPECT_EQ((*pulled)->dense.front(), static_cast<float>(round));
    EXPECT_EQ((*pulled)->pulled.pushes.front(), round);
    EXPECT_EQ((*pulled)->samples, 10U);
  }
  source_.reset();
  EXPECT_EQ(store_.MinVersions(), std::vector<std::uint64_t>(kRounds, 0));
}

TEST_F(RoundSourceTest, NoMoreThanOneRoundIsPulledAhead) {
  Open(Mode::kAsync);
  ASSERT_THAT(Next(), IsOk());
  store_.AwaitPulls(2);
  source_.reset();  // from here on there is no thread that could pull more
  EXPECT_EQ(store_.MinVersions().size(), 2U);
}

TEST_F(RoundSourceTest, SynchronousRoundsArePulledWhenTheyAreAskedFor) {
  Open(Mode::kSync);
  for (std::uint64_t round = 0; round < 3; ++round) {
    store_.SetVersion(round);
    ASSERT_THAT(Next(), IsOk());
  }
  source_.reset();
  EXPECT_EQ(store_.MinVersions(), (std::vector<std::uint64_t>{0, 1, 2}));
}

TEST_F(RoundSourceTest, APullThatWouldWaitForOthersIsNotMadeAhead) {
  Open(Mode::kSsp, 2);
  // The slowest has done nothing: rounds 0, 1 and 2 are within the bound, 3 is not.
  for (std::uint64_t round = 0; round < 3; ++round) ASSERT_THAT(Next(), IsOk());
  source_.reset();
  EXPECT_EQ(store_.MinVersions(), (std::vector<std::uint64_t>{0, 0, 0}));
}

TEST_F(RoundSourceTest, ARoundBeyondTheBoundWaitsWhenItIsAskedFor) {
  Open(Mode::kSsp, 2);
  for (std::uint64_t round = 0; round < 5; ++round) ASSERT_THAT(Next(), IsOk());
  source_.reset();
  EXPECT_EQ(store_.MinVersions(), (std::vector<std::uint64_t>{0, 0, 0, 1, 2}));
}

// The pull of a round waits for the push of the one before, so it may be announced before that.
TEST_F(RoundSourceTest, ARoundThatIsReadyIsAnnouncedAndThenPulled) {
  Open(Mode::kAsync, 0, false);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const bool is_last = round + 1 == kRounds;
    // The first round is not taken yet; later ones were when they were announced.
    const std::size_t ready = round == 0 ? 2 : 1;
    while (!is_last && queue_->ready() < ready) std::this_thread::yield();
    const auto pulled = Next();
    ASSERT_THAT(pulled, IsOk());
    EXPECT_EQ((*pulled)->dense.front(), static_cast<float>(round));
    EXPECT_EQ((*pulled)->samples, 10U);
    if (is_last) break;
    ASSERT_EQ(store_.Announced().size(), round + 1);
    EXPECT_EQ(store_.Announced().back(), round + 1);
  }
  EXPECT_EQ(store_.MinVersions().size(), kRounds);
}

TEST_F(RoundSourceTest, AnErrorAheadIsThatOfItsRound) {
  store_.FailAt(1);
  Open(Mode::kAsync);
  ASSERT_THAT(Next(), IsOk());
  store_.AwaitPulls(2);
  EXPECT_THAT(Next(), StatusIs(Code::kPeerLost, ::testing::HasSubstr("gone")));
}

}  // namespace
}  // namespace paceline::fused
