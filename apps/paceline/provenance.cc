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
      RunCommand({.argv = {"git", "-C", PACELINE_SOURCE_DIR, "status", "--porcelain"}}, 10s);
  return status.ok() && !status->out.empty();
}

}  // namespace

bench::Provenance MakeProvenance(const std::string& command,
                                 const std::vector<std::string>& arguments) {
  return {.command_line = fmt::format("{} {}", command, fmt::join(arguments, " ")),
          .started_unix = SystemClock().UnixSeconds(),
          .commit = PACELINE_COMMIT,
          .dirty = SourcesDiffer()};
}

}  // namespace paceline::cli
