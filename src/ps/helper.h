#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace paceline::ps {

// A second thread for work that comes often and is short: it waits, since starting one would take a
// good part of the time that it saves. Tasks are taken one after the other by whoever is free, so a
// helper that comes late, or not at all on a machine that is busy, holds nobody up. For one caller
// at a time; its thread starts with the first work and ends with it.
class Helper {
 public:
  using Task = std::function<void(std::size_t number)>;

  Helper() = default;
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // Calls task(0) to task(count - 1), each once, in this thread and the other; returns when all are
  // done. They begin in this order.
  void Share(std::size_t count, const Task& task) PACELINE_EXCLUDES(mutex_);

 private:
  void Run() PACELINE_EXCLUDES(mutex_);
  // Of the current work the next task; false: all are taken.
  bool Take(std::size_t& number) PACELINE_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable_any changed_;
  const Task* task_ PACELINE_GUARDED_BY(mutex_) = nullptr;  // null: nothing to do
  std::size_t next_ PACELINE_GUARDED_BY(mutex_) = 0;
  std::size_t count_ PACELINE_GUARDED_BY(mutex_) = 0;
  bool helps_ PACELINE_GUARDED_BY(mutex_) = false;  // a task runs in the helper's thread
  bool stopped_ PACELINE_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // of the caller
};

}  // namespace paceline::ps
