#pragma once

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace paceline::cli {

// Parses with CLI11. An exit code when the command ends here: help was printed, or the arguments
// are wrong (one line, code 2).
inline std::optional<int> ParseArguments(CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 pops the back
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::Error& error) {
    return Fail(app.get_name(),
                Status::Error(Code::kInvalidArgument,
                              fmt::format("{}; see `{} --help`", error.what(), app.get_name())));
  }
  return std::nullopt;
}

}  // namespace paceline::cli
