#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/parse.h"
#include "job/doctor.h"
#include "paceline/commands.h"

namespace paceline::cli {

int RunDoctor(const std::vector<std::string>& arguments) {
  CLI::App app("Check this machine and say what to do. Exits 1 when there is a problem.",
               "paceline doctor");
  bool json = false;
  app.add_flag("--json", json, "Print one JSON object");
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  const job::DoctorFacts facts = job::GatherFacts();
  const std::vector<job::Finding> findings = job::Diagnose(facts);
  if (json) {
    fmt::print("{}\n", job::DoctorJson(facts, findings));
  } else {
    fmt::print("{}", job::DoctorText(findings));
  }
  return job::DoctorExitCode(findings);
}

}  // namespace paceline::cli
