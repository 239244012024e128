#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "algo/trainer_share.h"
#include "base/mutex.h"
#include "base/status.h"
#include "sparse/fused_model.h"

namespace paceline::fused {

// Prepares a trainer's batches in a thread of its own, in order and a bounded number ahead, while
// others are computed. Next(), Continue() and Recycle() from one thread. Borrows `model`.
class BatchQueue {
 public:
  struct Options {
    algo::TrainerShare share;
    std::uint64_t first_step = 0;
    std::size_t depth = 2;  // batches that wait at most
  };
  BatchQueue(const sparse::FusedModel& model, const Options& options);
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // The next batch of the share; waits until it is ready. Not to be called after the last one or
  // after an error. No other is begun before Continue(), unless somebody waits for it: what comes
  // now, a pull, waits for threads that would have to share the cores with this one.
  Result<std::unique_ptr<sparse::SparseBatch>> Next() PACELINE_EXCLUDES(mutex_);
  void Continue() PACELINE_EXCLUDES(mutex_);
  // Batches that Next() would not wait for.
  std::size_t ready() PACELINE_EXCLUDES(mutex_);
  // Gives a batch back, whose memory serves for another one.
  void Recycle(std::unique_ptr<sparse::SparseBatch> batch) PACELINE_EXCLUDES(mutex_);

 private:
  using Prepared = Result<std::unique_ptr<sparse::SparseBatch>>;

  void PrepareAll() PACELINE_EXCLUDES(mutex_);
  // False when nothing more is wanted.
  bool PrepareOne(const algo::PositionRange& range) PACELINE_EXCLUDES(mutex_);

  const sparse::FusedModel& model_;
  const Options options_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Prepared> ready_ PACELINE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<sparse::SparseBatch>> spare_ PACELINE_GUARDED_BY(mutex_);
  bool holds_ PACELINE_GUARDED_BY(mutex_) = false;  // until Continue()
  bool stopped_ PACELINE_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace paceline::fused
