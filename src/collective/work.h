#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "collective/engine.h"

namespace paceline::collective {

// One operation in flight. Copies refer to the same operation. Thread-safe.
class Work {
 public:
  Work();

  bool Done() const;
  // Its outcome; kTimeout when it is not done in time (it goes on, and can be waited for again).
  Status Wait(std::chrono::nanoseconds timeout) const;
  // When it began and ended to move data; valid once done.
  Instant started() const;
  Instant finished() const;

 private:
  friend class Queue;
  struct State;
  std::shared_ptr<State> state_;
};

// Runs an engine's operations one after the other on a thread of its own, in the order in which
// they were started: what overlaps communication with computation. Cancelling means Abort() of the
// engine, since the other ranks wait for what was started. Thread-safe.
class Queue {
 public:
  // Borrows both.
  Queue(Engine& engine, const Clock& clock);
  // Aborts what is still in flight, and waits for its thread.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // `operation` runs on the queue's thread with the engine; what it refers to stays valid until
  // the work is done.
  Work Start(std::function<Status(Engine&)> operation);
  Work AllReduce(std::vector<std::span<float>> parts);

  // Fails everything that is in flight or queued.
  void Cancel(const Status& why);

 private:
  struct Item {
    Work work;
    std::function<Status(Engine&)> operation;
  };
  void Run(const std::stop_token& stop);

  Engine& engine_;
  const Clock& clock_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> items_ PACELINE_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: starts when everything else is ready
};

}  // namespace paceline::collective
