#pragma once

#include <string>

#include "bench/perf_results.h"

namespace paceline::bench {

// The table of nccl-tests, with its "in-place" columns only: engines work in place.
std::string NcclHeader(const PerfConfig& config);
std::string NcclRow(const PerfConfig& config, const PerfPoint& point);
std::string NcclFooter(const PerfConfig& config, const EngineResults& engine);

// All engines next to each other, with the ratio to the first one that ran.
std::string SideBySide(const PerfResults& results);

// Everything for a terminal: a block per engine, side by side, notes.
std::string PerfTable(const PerfResults& results);

// "2 workers on one host; median ± MAD of 5 rounds"
std::string DescribePerf(const PerfConfig& config);
std::string FormatMicroseconds(const std::optional<Summary>& time_us);  // "81.2 ± 0.7"
std::string FormatSpeedup(const std::optional<Summary>& speedup);       // "0.0071 ± 0.0004 ×"

}  // namespace paceline::bench
