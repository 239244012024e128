#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace paceline::net {

// One I/O thread and the queue of what it has to do. All streams and connections of a process
// share one. Thread-safe. The destructor ends the thread; what is posted afterwards is dropped, so
// whoever waits for a completion closes its connections first.
class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs `task` on the loop's thread, never inside this call.
  void Post(std::function<void()> task);
  bool OnLoop() const;
  // Runs `task` when the loop has ended, for whatever would keep itself alive otherwise.
  void AtEnd(std::function<void()> task);

  // A task that runs once, later, unless it is cancelled first. Loop-confined.
  class Timer {
   public:
    virtual ~Timer() = default;  // cancels
  };
  std::unique_ptr<Timer> AfterOnLoop(std::chrono::nanoseconds delay, std::function<void()> task);

  struct Impl;  // holds the library's types; for transports of this folder
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::net
