#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/results.h"
#include "bench/summary.h"

namespace paceline::bench {

// The result for a terminal, at most 100 columns wide as long as names are shorter than 24: rows
// are systems, columns batch sizes; then ratios, memory and notes.
std::string SingleNodeTable(const SingleNodeResults& results);

// Texts shared with the report. "—" stands for a figure that does not exist.
std::string FormatRate(const std::optional<Summary>& samples_per_second);  // "31.20 ± 0.15"
std::string FormatRatio(const std::optional<Summary>& ratio);              // "1.52 ± 0.01 ×"
std::string FormatBytes(std::optional<std::int64_t> bytes);                // "812 MB"
std::string SystemTitle(const SystemInfo& system);                         // "PyTorch 1.13.1"
std::string Plural(int count, const char* noun);                           // "2 steps"
// "1 thread pinned to CPU 1; median ± MAD of 7 rounds of 1 step"
std::string DescribeConfig(const SingleNodeConfig& config);

}  // namespace paceline::bench
