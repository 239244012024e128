#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/chaos.h"
#include "job/running_child.h"

namespace paceline::job {

struct ElasticLaunchOptions {
  std::string program = "paceline train";  // as messages name it
  std::string run;                         // directory of the run
  std::uint64_t start_workers = 1;
  std::uint64_t slots = 1;      // workers at the same time, at most
  std::int64_t restarts = 100;  // workers that are started again, in all
  bool quiet = false;
  std::vector<ChaosEvent> chaos;  // in order of steps
  std::chrono::milliseconds grace{10'000};
  int out_fd = 1;
  int err_fd = 2;
  const Clock* clock = &SystemClock();
  std::string cgroup_root{};  // below which /proc and /sys are; tests make one up
  // How to start them. `restarted`: the coordinator was there before. Worker `slot` of `slots`,
  // for the coordinator at `endpoint`, when so many steps are known to be done (counted only while
  // chaos lies ahead).
  std::function<ChildSpec(bool restarted)> coordinator;
  std::function<ChildSpec(std::uint64_t slot, const std::string& endpoint,
                          std::uint64_t steps_done)>
      worker;
};

// Runs a coordinator and workers until the training is over; returns the exit code for the
// launching program. A worker that dies is replaced, a coordinator that dies is started again where
// it was; a worker that says that nobody can help (bad flags, data, disk...) ends the run. Ctrl-C
// lets the workers save and ends the run; a second one kills. As RunLauncher, call it from a thread
// that lives as long as the launcher, with no other threads around.
Result<int> RunElasticLauncher(const ElasticLaunchOptions& options);

}  // namespace paceline::job
