#pragma once

#include <signal.h>

#include <stop_token>
#include <thread>

#include "base/unique_fd.h"

namespace paceline::job {

// Turns SIGINT and SIGTERM into a request to stop after the current step: save, then exit 0. A
// second SIGINT ends the process at once with code 130. Signals belong to the process, so this is
// the one place with a global flag; main installs it once.
void InstallStopSignals();

// The signal that asked to stop, or 0.
int StopRequested();

// SIGINT and SIGTERM as something to wait for: while one is alive they are blocked in the thread
// that made it and in threads started later, and fd() is readable when one has come. What was not
// read acts as usual afterwards. Thread-compatible.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return signals_.get(); }
  // The next signal, or 0 when there is none. Does not wait.
  int Next() const;

 private:
  sigset_t before_{};
  UniqueFd signals_;
};

// The same for a program that waits instead of polling: while one is alive, SIGINT and SIGTERM go
// to a thread of its own, which stops `source`. A second SIGINT ends the process with code 130.
// Make it before other threads, which inherit the blocked signals.
class StopWatcher {
 public:
  explicit StopWatcher(std::stop_source source);
  ~StopWatcher();
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

 private:
  void Watch();

  std::stop_source source_;
  StopSignals signals_;
  UniqueFd end_;
  std::jthread thread_;
};

}  // namespace paceline::job
