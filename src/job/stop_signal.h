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
  sigset_t before_{};
  UniqueFd signals_;
  UniqueFd end_;
  std::jthread thread_;
};

}  // namespace paceline::job
