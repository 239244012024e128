#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/subprocess.h"

// Runs with parameter servers, small enough to be repeated.
namespace paceline::testing {

inline constexpr std::uint64_t kTrainers = 2, kServers = 2, kSteps = 60;

// `paceline train` with kSteps steps on servers; says neither how many there are nor where.
std::vector<std::string> PlacelessTraining(const std::string& run,
                                           const std::vector<std::string>& more = {});

// The same with two trainers and two servers; `more` overrules.
std::vector<std::string> ServerTraining(const std::string& run,
                                        const std::vector<std::string>& more = {});

// What RUN/servers/server-I.json says after the end.
nlohmann::json ServerRecordOf(const std::string& run, std::uint64_t index);

// Fails the test unless the run ended well, nobody lives, and every server has exactly `pushes` of
// all trainers together. Returns result.json.
nlohmann::json ExpectComplete(const CommandResult& result, const std::string& run,
                              std::uint64_t pushes, std::uint64_t servers = kServers);

}  // namespace paceline::testing
