#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/stats.h"
#include "bench/results.h"

namespace paceline::bench {

// One system at one batch size, as the tables show it.
struct Cell {
  std::optional<Summary> samples_per_second;  // none: it did not run
  std::size_t outliers = 0;
  std::optional<std::int64_t> max_rss_bytes;
  // Ours over this system's; none for ours itself. The rounds are paired, so noise that hit both
  // cancels.
  std::optional<Summary> speedup;
  std::optional<double> memory_ratio;
};

struct BatchSummary {
  int batch = 0;
  std::vector<Cell> cells;  // same order as SingleNodeResults::systems
};

std::vector<BatchSummary> Summarize(const SingleNodeResults& results);

// What the machine's state before the start makes doubtful: load, frequency, swap.
std::vector<std::string> MachineWarnings(const job::Machine& machine);

// What makes the figures doubtful: the machine's state before the start, outliers, wide spreads.
std::vector<std::string> Warnings(const SingleNodeResults& results);

}  // namespace paceline::bench
