#include "fused/batch_queue.h"

#include <utility>

#include "base/thread.h"

namespace paceline::fused {

BatchQueue::BatchQueue(const sparse::FusedModel& model, const Options& options)
    : model_(model), options_(options), thread_(StartThread("prepare", [this] { PrepareAll(); })) {}

BatchQueue::~BatchQueue() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

Result<std::unique_ptr<sparse::SparseBatch>> BatchQueue::Next() {
  const MutexLock lock(mutex_);
  if (ready_.empty()) {
    holds_ = false;
    changed_.notify_all();
  }
  while (ready_.empty()) changed_.wait(mutex_);
  Prepared batch = std::move(ready_.front());
  ready_.pop_front();
  holds_ = true;
  return batch;
}

void BatchQueue::Continue() {
  const MutexLock lock(mutex_);
  holds_ = false;
  changed_.notify_all();
}

std::size_t BatchQueue::ready() {
  const MutexLock lock(mutex_);
  return ready_.size();
}

void BatchQueue::Recycle(std::unique_ptr<sparse::SparseBatch> batch) {
  const MutexLock lock(mutex_);
  spare_.push_back(std::move(batch));
}

void BatchQueue::PrepareAll() {
  const algo::TrainerShare& share = options_.share;
  for (std::uint64_t step = options_.first_step; step < share.plan.Steps(); ++step) {
    for (const algo::PositionRange& range : share.RangesOf(step)) {
      if (!PrepareOne(range)) return;
    }
  }
}

bool BatchQueue::PrepareOne(const algo::PositionRange& range) {
  std::unique_ptr<sparse::SparseBatch> into;
  {
    const MutexLock lock(mutex_);
    while ((holds_ || ready_.size() >= options_.depth) && !stopped_) changed_.wait(mutex_);
    if (stopped_) return false;
    if (!spare_.empty()) {
      into = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  Prepared batch = model_.Prepare(range, std::move(into));
  const bool ok = batch.ok();
  const MutexLock lock(mutex_);
  ready_.push_back(std::move(batch));
  changed_.notify_all();
  return ok;
}

}  // namespace paceline::fused
