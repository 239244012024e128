#pragma once

#include <string>
#include <vector>

#include "bench/results.h"

namespace paceline::cli {

// Where the results of `command ARGUMENTS`, started now, come from.
bench::Provenance MakeProvenance(const std::string& command,
                                 const std::vector<std::string>& arguments);

}  // namespace paceline::cli
