#pragma once

#include <string>

#include "bench/scaling_results.h"

namespace paceline::bench {

// "2 workers of 1 thread on CPUs 0 | 1, batch 64 each; median ± MAD of 7 rounds of 2 steps"
std::string DescribeScaling(const ScalingConfig& config);

// The result for a terminal: a row for each system; then ratios and notes.
std::string ScalingTable(const ScalingResults& results);

// report.html of `paceline bench scaling`, in one file.
std::string ScalingReport(const ScalingResults& results);

}  // namespace paceline::bench
