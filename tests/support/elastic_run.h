#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/program.h"

namespace paceline::testing {

// `paceline train` of a small elastic run of four virtual shards and 80 steps.
std::vector<std::string> Elastic(const std::string& run, const std::string& workers,
                                 std::vector<std::string> more = {});

// What Elastic() comes to when nothing happens; `steps` instead of 80.
const std::string& UndisturbedHash(int steps = 80);

// The whole lines of a file of records, and how many of them are of one type.
std::vector<nlohmann::json> Records(const std::string& path);
std::size_t Count(const std::string& path, const std::string& type);

// Every sample once, generations in order (O2, O6), nothing left behind (O4).
void ExpectInvariants(const std::string& run);

// Runs with faults and expects the bits of a run without.
void ExpectSameBits(const std::string& workers, const std::string& chaos,
                    const std::vector<std::string>& more = {}, Environment environment = {});

}  // namespace paceline::testing
