#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/scaling_results.h"
#include "bench/single_node.h"
#include "job/placement.h"

namespace paceline::bench {

// `paceline bench scaling`: how much of the speed of N lone workers N cooperating workers reach.
struct ScalingOptions {
  ScalingConfig config;
  // The program that serves our steps, with its first arguments; --model, --batch and --threads
  // follow. Workers that train together find PACELINE_RANK etc. in their environment.
  std::vector<std::string> worker;
  std::map<std::string, std::string> worker_environment;
  // The peer is `python PEERS_DIR/PEER_FAMILY.py`; workers that train together also get --init,
  // RANK and WORLD_SIZE. Empty: no peer.
  std::string peer = "pytorch";
  std::string peer_family = "image";
  std::filesystem::path peers_dir;
  std::string python = "/usr/bin/python3";
  std::filesystem::path out_dir;  // stderr of every process goes to out_dir/logs
  // Every system must train exactly this model; 0: not checked.
  std::int64_t expected_params = 0;
  std::int64_t expected_tensors = 0;
  std::chrono::milliseconds ready_timeout{180'000};
  std::chrono::milliseconds run_timeout{900'000};
};

// As many CPUs as threads for each worker; empty when there are not enough for all.
std::vector<std::vector<int>> ScalingCpus(const ScalingConfig& config,
                                          const job::AvailableCpus& available);

// kInvalidArgument names the option that cannot work.
Status Validate(const ScalingOptions& options);

struct ScalingOutcome {
  ScalingResults results;  // whatever was measured, marked partial unless the status is ok
  Status status;
};

// Starts all workers of all systems, alone and together; they take turns, one round each, the order
// flipped every round; who is not measured waits blocked. In its turn every worker starts at once.
// A peer that is not installed becomes a row that says so. All processes have ended when this
// returns.
ScalingOutcome RunScaling(const ScalingOptions& options, const job::Machine& machine,
                          const Provenance& provenance, const Progress& progress,
                          std::stop_token stop);

}  // namespace paceline::bench
