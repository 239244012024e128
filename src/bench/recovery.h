#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/stats.h"
#include "base/status.h"
#include "bench/results.h"
#include "job/machine.h"

namespace paceline::bench {

struct RecoveryConfig {
  std::string model = "vgg16";
  int workers = 3;
  int batch = 4;               // per worker; a recovery contains one whole step
  std::string fault = "kill";  // or stop: the worker hangs; or cut: it loses its network
  int faults = 20;
  double heartbeat = 0.5, dead_timeout = 5;  // seconds
  std::string shared_memory = "auto";
  std::uint64_t seed = 1;
  int cost_rounds = 20;  // turns of an elastic and of a fixed group; 0: not compared
  int cost_steps = 10;   // of each turn
};

struct RecoveryOptions {
  RecoveryConfig config;
  std::string paceline;  // the program
  std::string out_dir;
};

// One worker that died, and what came of it; seconds.
struct Recovery {
  double to_next_step = 0;                 // from its death to the next step that was committed
  double step = 0;                         // of that, a step of the survivors takes so long
  std::optional<double> stall_of_joining;  // what the others lost when its replacement came
};

// Samples per second in one turn of each.
struct CostPair {
  double fixed = 0, elastic = 0;
};

// results.json, schema 1: schema, name "recovery", command_line, started_unix, commit, dirty,
// machine{...} as in results.h, config{...}, recoveries[{to_next_step, step,
// stall_of_joining|null}], cost[{fixed, elastic}] (samples per second in turns), audit "OK"
// or what it said, failure, summary{to_next_step{p50, p95, max}, stall_of_joining{...},
// elastic_over_fixed{median, mad}|null}.
struct RecoveryResults {
  Provenance provenance;
  job::Machine machine;
  RecoveryConfig config;
  std::vector<Recovery> recoveries;
  std::vector<CostPair> cost;
  std::string audit;
  std::string failure;
};

Status Validate(const RecoveryConfig& config);

// Trains, makes workers fail at random moments, and measures until the training goes on. Failing is
// told in the results.
RecoveryResults RunRecovery(const RecoveryOptions& options, const job::Machine& machine,
                            const Provenance& provenance,
                            const std::function<void(const std::string&)>& progress,
                            const std::stop_token& stop);

std::string ToJson(const RecoveryResults& results);
std::string RecoveryTable(const RecoveryResults& results);

}  // namespace paceline::bench
