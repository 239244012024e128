#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algo/shard_layout.h"
#include "base/ids.h"
#include "base/status.h"
#include "collective/engine.h"
#include "job/blame.h"

namespace paceline::train {

// What one shard of a step came to.
struct ShardReport {
  double loss = 0;  // sum over its samples
  double correct = 0;
  double predictions = 0;  // of which `correct` were right
  std::uint64_t samples = 0;
};

// What a rank tells the others at the end of a step.
struct RankReport {
  std::vector<ShardReport> shards;  // its own, in order
  double busy_seconds = 0;          // from the start of the step to its last gradient
  job::BusyLink link;
  bool stop = false;       // it was asked to stop
  bool view_ends = false;  // the coordinator wants other members
};

// The reports of all ranks, the same on every rank.
struct StepReport {
  std::vector<ShardReport> shards;   // of the whole step, in order
  std::vector<double> busy_seconds;  // by rank
  std::vector<job::BusyLink> links;  // by rank
  bool stop = false;                 // somebody was asked to stop: all do, after this step
  bool view_ends = false;            // somebody has heard that the view ends: for all, here
};

// Exchanges the reports. Collective.
Result<StepReport> ExchangeReports(collective::Engine& engine, const RankReport& mine);

// A text of every rank, of any lengths. Collective.
Result<std::vector<std::string>> GatherTexts(collective::Engine& engine, const std::string& mine);

}  // namespace paceline::train
