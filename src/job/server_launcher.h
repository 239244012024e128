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

struct ServerLaunchOptions {
  std::string program = "paceline train";  // as messages name it
  std::string run;                         // directory of the run
  std::uint64_t servers = 1;
  std::uint64_t trainers = 1;
  std::uint64_t start_trainers = 1;  // of an elastic run, to begin with; `trainers` is the most
  std::int64_t restarts = 100;       // processes that are started again, in all
  bool quiet = false;
  std::vector<ChaosEvent> chaos;  // in order of steps; of ParseServerChaos
  // Where the servers listen, if that is decided; else they choose, and say it in their records.
  std::vector<std::string> endpoints;
  // Trainer 0 writes to our stderr directly, so that its progress line works on a terminal.
  bool inherit_first_stderr = false;
  std::chrono::milliseconds grace{10'000};          // of trainers, after a failure
  std::chrono::milliseconds server_grace{300'000};  // of servers, for their last snapshot
  int out_fd = 1;
  int err_fd = 2;
  const Clock* clock = &SystemClock();
  std::string cgroup_root{};  // below which /proc and /sys are; tests make one up
  // How to start them: a server that listens at `bind` (empty: wherever it likes), and a trainer.
  std::function<ChildSpec(std::uint64_t index, const std::string& bind)> server;
  struct Places {                      // "host:port"
    std::vector<std::string> servers;  // by index
    std::string coordinator;  // of an elastic run; empty: it has ended, the run is complete
  };
  std::function<ChildSpec(std::uint64_t rank, const Places& places)> trainer;
  // Of an elastic run; `restarted`: it was there before.
  std::function<ChildSpec(bool restarted)> coordinator = nullptr;
};

// Runs parameter servers, and trainers as soon as all servers are ready; returns the exit code for
// the launching program. When every trainer has ended well, the servers get SIGTERM, make their
// last snapshot and end.
//
// A server that ends before that is started again where it was listening; a trainer that is ended
// by a signal or by something temporary is started again with the same rank. Those who say that
// nobody can help (bad flags, data, disk, log...) end the run with their exit code. Ctrl-C lets the
// trainers save and end, then the servers; a second one kills. As RunLauncher, call it from a
// thread that lives as long as the launcher, with no other threads around.
//
// With a coordinator, trainers may end well at any time: they leave. The coordinator says when the
// run is complete; if no trainer is left then to write the run's end, one is started for that.
Result<int> RunServerLauncher(const ServerLaunchOptions& options);

}  // namespace paceline::job
