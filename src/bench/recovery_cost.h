#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/recovery.h"

namespace paceline::bench {

// A training to start, and the folder of its records.
struct TrainingCommand {
  std::vector<std::string> argv;
  std::string run;
};

// Starts both and lets them take turns of `steps` steps; the processes of the one that has no turn
// are stopped. What else the machine does for longer than a turn meets both alike, which whole runs
// one after the other do not achieve. Appends a pair per round. Ends both.
Status CompareByTurns(const TrainingCommand& fixed, const TrainingCommand& elastic, int rounds,
                      int steps, const std::function<void(const std::string&)>& progress,
                      const std::stop_token& stop, std::vector<CostPair>& pairs);

}  // namespace paceline::bench
