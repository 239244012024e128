#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/subprocess.h"

namespace paceline::testing {

// Path of a built program, e.g. Program("paceline-worker").
std::string Program(const std::string& name);

using Environment = std::map<std::string, std::string>;

// Runs `paceline ARGUMENTS` to its end. Fails the test when it does not end in time.
CommandResult RunPaceline(std::vector<std::string> arguments, Environment environment = {});

// `paceline train` with small, fast settings in front of the given arguments.
std::vector<std::string> SmallTraining(const std::string& run,
                                       const std::vector<std::string>& more = {});

// The JSON object in the last line of a program's output; fails the test when there is none.
nlohmann::json LastJson(const std::string& output);

// The params_hash that a training printed; fails the test when the training failed.
std::string HashOf(const CommandResult& result);

// Fails the test unless the command ended with this exit code, printed exactly one error line that
// contains `text`, and showed no stack trace.
void ExpectError(const CommandResult& result, int exit_code, const std::string& text);

// Starts `paceline ARGUMENTS` with stderr joined to stdout, so that ReadLine sees its progress.
Subprocess StartPaceline(const std::vector<std::string>& arguments, Environment environment = {});

}  // namespace paceline::testing
