#pragma once

#include <string>

#include "bench/perf_results.h"

namespace paceline::bench {

// report.html of `paceline perf`: chart, tables, how it was measured and where the figures come
// from, in one file.
std::string PerfReport(const PerfResults& results);

}  // namespace paceline::bench
