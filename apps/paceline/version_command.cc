#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/json_writer.h"
#include "cli/parse.h"
#include "paceline/commands.h"
#include "paceline/provenance.h"

namespace paceline::cli {

int RunVersion(const std::vector<std::string>& arguments) {
  CLI::App app("Show the version.", "paceline version");
  bool json = false;
  app.add_flag("--json", json, "Print one JSON object");
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  if (json) {
    fmt::print("{}\n", JsonObject()
                           .Add("version", PACELINE_VERSION)
                           .Add("commit", Commit())
                           .Add("compiler", __VERSION__)
                           .Text());
  } else {
    fmt::print("paceline {} (commit {}, compiler {})\n", PACELINE_VERSION, Commit(), __VERSION__);
  }
  return 0;
}

}  // namespace paceline::cli
