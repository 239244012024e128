#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/perf_group.h"
#include "bench/perf_results.h"
#include "bench/single_node.h"

namespace paceline::bench {

// `paceline perf`: collectives of several engines next to each other.
struct PerfRunOptions {
  PerfConfig config;
  std::vector<std::string> engines{"native", "gloo", "mpi"};
  std::string rank_program;       // paceline-perf
  std::string mpirun = "mpirun";  // with arguments of its own, e.g. "mpirun --mca pml ob1"
  std::filesystem::path out_dir;  // output of every process goes to out_dir/logs
  int cores = 0;                  // of this host; more workers than these let MPI yield
  // Ranks on several (emulated) hosts, in turn: rank r runs as `prefix` with {host} replaced by
  // hosts[r % n], and listens on addresses[r % n]. Empty: this host, loopback.
  std::string rank_prefix;
  std::vector<std::string> hosts;
  std::vector<std::string> addresses;
  // `agent ADDRESS WORDS...` runs words in a shell on that host; MPI needs it for several hosts.
  std::string remote_agent;
};

// kInvalidArgument names the option that cannot work.
Status Validate(const PerfRunOptions& options);

// The processes of one engine. `folder` is private to it. Pure.
std::vector<PerfProcess> PlanProcesses(const PerfRunOptions& options, const std::string& engine,
                                       const std::filesystem::path& folder);

struct PerfOutcome {
  PerfResults results;  // whatever was measured, marked partial unless the status is ok
  Status status;
};

// Starts all engines once; for each size they take turns, one round each, the order flipped every
// round, so that noise of the machine hits all alike; who is not measured waits blocked. An engine
// that is not available becomes a line that says so. kBadData after wrong sums.
PerfOutcome RunPerf(const PerfRunOptions& options, const job::Machine& machine,
                    const Provenance& provenance, const Progress& progress, std::stop_token stop);

}  // namespace paceline::bench
