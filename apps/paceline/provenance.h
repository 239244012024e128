#pragma once

#include <string>
#include <vector>

#include "bench/results.h"

namespace paceline::cli {

// The commit that was built, or "unknown". Only provenance.cc is compiled again after a commit.
std::string Commit();

// The checkout that was built.
std::string SourceDirectory();

// Where the results of `command ARGUMENTS`, started now, come from.
bench::Provenance MakeProvenance(const std::string& command,
                                 const std::vector<std::string>& arguments);

}  // namespace paceline::cli
