#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/running_child.h"

namespace paceline::job {

struct LauncherOptions {
  std::string program = "paceline";         // as messages and the failure block name it
  std::chrono::milliseconds grace{10'000};  // between SIGTERM and SIGKILL after a failure
  // Rank 0 writes to our stderr directly, so that its progress line works on a terminal; then its
  // last error line is on the screen and not in the failure block.
  bool inherit_first_stderr = false;
  int out_fd = 1;
  int err_fd = 2;
  const Clock* clock = &SystemClock();
  std::string cgroup_root{};  // below which /proc and /sys are; tests make one up
};

// Runs the children until all have ended and returns the exit code for the launching program.
//
// Output comes in whole lines: rank 0's stdout unchanged on ours, everything else on our stderr
// with
// "[label] " in front. When a child fails, the others get SIGTERM and, after the grace period,
// SIGKILL; then one block on stderr names the root cause, and the exit code is the root cause's
// (128
// + signal for a signal). SIGINT and SIGTERM to the launcher are passed on once, without a
// deadline: workers save before they end. A second SIGINT kills. Each child leads a process group
// of its own, which ends with it; all end with the calling thread.
//
// Call it from a thread that lives as long as the launcher, with no other threads around: they
// would take the signals. An error only when a child could not be started or waited for; the others
// are killed then.
Result<int> RunLauncher(const LauncherOptions& options, std::vector<ChildSpec> children);

}  // namespace paceline::job
