#pragma once

#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace paceline::disk {

// Held by the one process that may write to a run directory, or to one file; freed by the
// destructor or by the death of the process, however it dies. The file stays: removing it would let
// a third process lock a new file while a second one waits on the old. A child made by fork without
// exec shares the lock. Thread-compatible. Does not protect against machines that do not share
// flock.
class RunLock {
 public:
  // Locks `dir`/LOCK and writes who we are into it. kAlreadyRunning names the holder.
  static Result<RunLock> Acquire(const std::string& dir, const Clock& clock = SystemClock());
  // Locks `path`.lock in the same way, on behalf of `holder` ("pid 12 host a").
  static Result<RunLock> AcquireFile(const std::string& path, const std::string& holder);

 private:
  static Result<RunLock> Lock(const std::string& lock_path, const std::string& what,
                              const std::string& holder);
  explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace paceline::disk
