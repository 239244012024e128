#include "collective/work.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread.h"

namespace paceline::collective {

struct Work::State {
  mutable Mutex mutex;
  std::condition_variable_any changed;
  bool done PACELINE_GUARDED_BY(mutex) = false;
  Status status PACELINE_GUARDED_BY(mutex);
  Instant started PACELINE_GUARDED_BY(mutex){};
  Instant finished PACELINE_GUARDED_BY(mutex){};
};

Work::Work() : state_(std::make_shared<State>()) {}

bool Work::Done() const {
  const MutexLock lock(state_->mutex);
  return state_->done;
}

Status Work::Wait(std::chrono::nanoseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const MutexLock lock(state_->mutex);
  while (!state_->done) {
    if (state_->changed.wait_until(state_->mutex, deadline) == std::cv_status::timeout &&
        !state_->done) {
      return Status::Error(Code::kTimeout, "the operation is still in flight");
    }
  }
  return state_->status;
}

Instant Work::started() const {
  const MutexLock lock(state_->mutex);
  PACELINE_CHECK(state_->done, "times are known when the work is done");
  return state_->started;
}

Instant Work::finished() const {
  const MutexLock lock(state_->mutex);
  PACELINE_CHECK(state_->done, "times are known when the work is done");
  return state_->finished;
}

Queue::Queue(Engine& engine, const Clock& clock)
    : engine_(engine),
      clock_(clock),
      thread_(StartThread("collectives", [this](std::stop_token stop) { Run(stop); })) {}

Queue::~Queue() {
  {
    const MutexLock lock(mutex_);  // so that the thread cannot miss it on its way to sleep
    thread_.request_stop();
  }
  Cancel(Status::Error(Code::kAborted, "the queue of collective operations was closed"));
}

Work Queue::Start(std::function<Status(Engine&)> operation) {
  Item item{Work(), std::move(operation)};
  Work work = item.work;
  {
    const MutexLock lock(mutex_);
    items_.push_back(std::move(item));
  }
  changed_.notify_one();
  return work;
}

Work Queue::AllReduce(std::vector<std::span<float>> parts) {
  return Start([parts = std::move(parts)](Engine& engine) { return engine.AllReduce(parts); });
}

void Queue::Cancel(const Status& why) {
  const bool idle = [&] {
    const MutexLock lock(mutex_);
    return items_.empty();
  }();
  if (!idle) engine_.Abort(why);
  changed_.notify_one();
}

// Ends once it is asked to and nothing is left: every Work is completed, whatever happened.
void Queue::Run(const std::stop_token& stop) {
  for (;;) {
    Item item;
    {
      const MutexLock lock(mutex_);
      while (items_.empty() && !stop.stop_requested()) changed_.wait(mutex_);
      if (items_.empty()) return;
      item = items_.front();
    }
    const Instant started = clock_.Now();
    const Status status = item.operation(engine_);
    {
      const MutexLock lock(mutex_);
      items_.pop_front();
    }
    const MutexLock lock(item.work.state_->mutex);
    item.work.state_->status = status;
    item.work.state_->started = started;
    item.work.state_->finished = clock_.Now();
    item.work.state_->done = true;
    item.work.state_->changed.notify_all();
  }
}

}  // namespace paceline::collective
