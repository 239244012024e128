#include "paceline/provenance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/subprocess.h"

namespace paceline::cli {

namespace {

using namespace std::chrono_literals;

bool SourcesDiffer() {
  const auto status =
      RunCommand({.argv = {"git", "-C", SourceDirectory(), "status", "--porcelain"}}, 10s);
  return status.ok() && !status->out.empty();
}

}  // namespace

std::string Commit() { return PACELINE_COMMIT; }

std::string SourceDirectory() { return PACELINE_SOURCE_DIR; }

bench::Provenance MakeProvenance(const std::string& command,
                                 const std::vector<std::string>& arguments) {
  return {.command_line = fmt::format("{} {}", command, fmt::join(arguments, " ")),
          .started_unix = SystemClock().UnixSeconds(),
          .commit = Commit(),
          .dirty = SourcesDiffer()};
}

}  // namespace paceline::cli
