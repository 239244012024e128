#pragma once

#include <string>

#include "bench/results.h"

namespace paceline::bench {

// report.html of `paceline bench single-node`: charts, tables, how it was measured and where the
// figures come from, in one file.
std::string SingleNodeReport(const SingleNodeResults& results);

}  // namespace paceline::bench
