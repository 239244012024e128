#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "algo/trainer_share.h"
#include "base/clock.h"
#include "base/line_vector.h"
#include "base/mutex.h"
#include "base/status.h"
#include "fused/batch_queue.h"
#include "fused/job_description.h"
#include "fused/round_rows.h"
#include "job/phases.h"
#include "ps/store.h"
#include "sparse/fused_model.h"

namespace paceline::fused {

// What a trainer needs to compute one round.
struct PulledRound {
  PulledRound(const std::vector<sparse::TableSpec>& tables, std::size_t dense_floats)
      : rows(tables), dense(dense_floats) {}

  std::vector<std::unique_ptr<sparse::SparseBatch>> batches;
  std::uint64_t samples = 0;  // 0: nothing was pulled
  RoundRows rows;
  LineVector<float> dense;
  ps::PullAnswer pulled;
};

// A trainer's rounds with their parameters, in order. If asked to, it pulls one round ahead in a
// thread of its own while the caller computes; never when that pull would wait for other trainers,
// so whoever stops is not held up by them. Thus the synchronous mode never pulls ahead, and bounded
// staleness keeps its bound. Otherwise the store hears of the next round while one is computed, and
// is asked for it afterwards. Borrows everything it is made of. Thread-compatible.
class RoundSource {
 public:
  struct Options {
    Mode mode = Mode::kSync;
    algo::TrainerShare share;
    std::uint64_t first_round = 0;
    std::uint64_t staleness = 0;  // kSsp: rounds ahead of the slowest trainer
    bool ahead = false;
  };
  RoundSource(const sparse::FusedModel& model, std::size_t dense_floats, ps::Store& store,
              BatchQueue& queue, const Options& options, const Clock& clock);
  ~RoundSource();
  RoundSource(const RoundSource&) = delete;
  RoundSource& operator=(const RoundSource&) = delete;

  // The next round; it stays until the next call. What the caller waits for is added to `phases`.
  // Not to be called after the last round or after an error.
  Result<PulledRound*> Next(job::PhaseTimes& phases) PACELINE_EXCLUDES(mutex_);

 private:
  PulledRound& Place(std::uint64_t round) { return places_[round % places_.size()]; }
  std::uint64_t MinVersion(std::uint64_t round) const;
  std::size_t BatchesOf(std::uint64_t round) const;
  Status TakeBatches(std::uint64_t round);
  ps::PullRequest RequestOf(std::uint64_t round);
  void Announce(std::uint64_t round);
  Status Fetch(std::uint64_t round, job::PhaseTimes& phases);
  Status Pull(std::uint64_t round, job::PhaseTimes& phases);
  Status AwaitFetched(std::uint64_t round) PACELINE_EXCLUDES(mutex_);
  void FetchAhead() PACELINE_EXCLUDES(mutex_);

  ps::Store& store_;
  BatchQueue& queue_;
  const Options options_;
  const Clock& clock_;
  // One is computed while the other is fetched. Whoever fetches owns the latter and the queue.
  std::array<PulledRound, 2> places_;
  std::uint64_t next_ = 0;           // round of the next call
  std::optional<Status> announced_;  // it is, if its batches are taken: how that went
  std::uint64_t version_ = 0;        // of the last pull that the caller has seen

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t wanted_ PACELINE_GUARDED_BY(mutex_) = 0;   // end of the rounds to fetch ahead
  std::uint64_t fetched_ PACELINE_GUARDED_BY(mutex_) = 0;  // end of those that are here
  Status failure_ PACELINE_GUARDED_BY(mutex_);
  bool stopped_ PACELINE_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last; only with `ahead`
};

}  // namespace paceline::fused
