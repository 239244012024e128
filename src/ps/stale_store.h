#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ps/job_spec.h"
#include "ps/store.h"

namespace paceline::ps {

// A store whose pulls do not wait for a server that is away: a pull that is not answered in time
// gets what was pulled last, and so do the following ones until the late answer is there. A row
// that was never pulled has the value that it is created with. Pushes wait as those of the store
// below: its window bounds how far a trainer goes on. Only for modes that do not wait for other
// trainers; pulls that do, and those that only look, go to the store below. Costs a thread, a copy
// of each pull, and memory for every row that was ever pulled. Thread-safe as Store says.
class StaleStore final : public Store {
 public:
  struct Options {
    JobSpec job;
    std::chrono::milliseconds patience{1'000};  // a server that answers later is away
  };
  StaleStore(std::unique_ptr<Store> below, const Options& options);
  ~StaleStore() override;

  Status Initialise(std::span<const float> dense) override { return below_->Initialise(dense); }
  Result<std::uint64_t> NextBatch(std::uint64_t lease) override { return below_->NextBatch(lease); }
  Result<PullAnswer> Pull(const PullRequest& request) override PACELINE_EXCLUDES(mutex_);
  Status Push(const ps::Push& push, std::span<const std::uint64_t> pulled) override {
    return below_->Push(push, pulled);
  }
  Result<std::unique_ptr<OpenPush>> Open(const ps::Push& push,
                                         std::span<const std::uint64_t> pulled) override {
    return below_->Open(push, pulled);
  }
  void SaveWithNextPush() override { below_->SaveWithNextPush(); }
  Status Flush() override { return below_->Flush(); }
  std::uint64_t Acknowledged(std::uint64_t lease) override { return below_->Acknowledged(lease); }
  Result<ChangedRows> PullChanged(std::uint64_t trainer, std::uint32_t table,
                                  std::uint64_t call) override {
    return below_->PullChanged(trainer, table, call);
  }

  std::uint64_t stale_pulls() const PACELINE_EXCLUDES(mutex_);

 private:
  // A pull with memory of its own: whoever asked may have gone on.
  struct Asked {
    PullRequest request;
    std::vector<std::vector<std::int64_t>> ids;
    std::vector<std::vector<float>> values;
    std::vector<float> dense;
  };
  struct Table {
    std::size_t dim = 0;
    std::unordered_map<std::int64_t, std::size_t> slots;
    std::vector<float> values;
  };

  Asked Copy(const PullRequest& request) const;
  void PullAll() PACELINE_EXCLUDES(mutex_);
  void Remember(const Asked& asked) PACELINE_REQUIRES(mutex_);
  void Recall(const PullRequest& request) const PACELINE_REQUIRES(mutex_);

  const std::unique_ptr<Store> below_;
  const Options options_;
  Mutex pulling_;  // taken first: one pull after the other
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  Asked asked_ PACELINE_GUARDED_BY(mutex_);
  bool busy_ PACELINE_GUARDED_BY(mutex_) = false;  // the thread pulls `asked_`
  bool away_ PACELINE_GUARDED_BY(mutex_) = false;  // the last pull was not answered in time
  bool stopped_ PACELINE_GUARDED_BY(mutex_) = false;
  bool pulled_ PACELINE_GUARDED_BY(mutex_) = false;  // ever
  Status failure_ PACELINE_GUARDED_BY(mutex_);       // of the thread, for good
  std::uint64_t stale_pulls_ PACELINE_GUARDED_BY(mutex_) = 0;
  PullAnswer answer_ PACELINE_GUARDED_BY(mutex_);  // of the newest
  std::vector<float> dense_ PACELINE_GUARDED_BY(mutex_);
  std::vector<Table> tables_ PACELINE_GUARDED_BY(mutex_);
  std::jthread thread_;  // last
};

}  // namespace paceline::ps
