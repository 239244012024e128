#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/results.h"
#include "job/machine.h"

namespace paceline::bench {

// `paceline bench single-node`: how fast one process trains, next to its peers.
struct SingleNodeOptions {
  SingleNodeConfig config;
  std::vector<int> batches{32, 64, 128, 256};
  // The program that serves our steps, with its first arguments; --model, --batch and --threads
  // follow. Peers are started the same way as `python PEERS_DIR/PEER_MODEL.py`, or PEER_GROUP.py
  // where one program trains several models.
  std::vector<std::string> worker;
  std::map<std::string, std::string> worker_environment;
  std::vector<std::string> peers{"pytorch"};
  std::string peer_group;  // empty: the model has a program of its own
  std::filesystem::path peers_dir;
  std::string python = "/usr/bin/python3";
  std::filesystem::path out_dir;  // stderr of every process goes to out_dir/logs
  // Every system must train exactly this model; 0: not checked.
  std::int64_t expected_params = 15'254'602;
  std::int64_t expected_tensors = 60;
  std::chrono::milliseconds ready_timeout{180'000};
  std::chrono::milliseconds run_timeout{900'000};
};

// The CPU to pin to: the last one this process may use (the first serves most interrupts) when
// one thread is measured, none for more threads.
std::optional<int> DefaultCpu(int threads);

// kInvalidArgument names the option that cannot work.
Status Validate(const SingleNodeOptions& options);

// `status` is ok, kAborted after a stop, or names the system that failed; `results` hold whatever
// was measured until then, marked partial unless the status is ok.
struct SingleNodeOutcome {
  SingleNodeResults results;
  Status status;
};

// One line per event, for people.
using Progress = std::function<void(const std::string&)>;

// For each batch size starts all systems and lets them take turns, one round each, the order
// flipped every round; whoever is not measured waits blocked. A peer that is not installed becomes
// a row that says so. All processes have ended when this returns.
SingleNodeOutcome RunSingleNode(const SingleNodeOptions& options, const job::Machine& machine,
                                const Provenance& provenance, const Progress& progress,
                                std::stop_token stop);

}  // namespace paceline::bench
