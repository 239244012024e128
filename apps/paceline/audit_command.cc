#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/parse.h"
#include "job/audit.h"
#include "job/run_compare.h"
#include "paceline/commands.h"

namespace paceline::cli {

namespace {

constexpr char kAuditCommand[] = "paceline audit";

Result<int> AuditOne(const std::string& path, bool json) {
  PACELINE_ASSIGN(const job::LoadedRun run, job::LoadRun(path));
  PACELINE_ASSIGN(const job::AuditReport report, job::Audit(run));
  fmt::print("{}", json ? job::AuditJson(report) + "\n" : job::AuditText(report));
  return report.ok() ? 0 : ExitCode(Code::kBadData);
}

Result<int> CompareTwo(const std::string& path, const std::string& other, bool json) {
  PACELINE_ASSIGN(const job::LoadedRun first, job::LoadRun(path));
  PACELINE_ASSIGN(const job::LoadedRun second, job::LoadRun(other));
  PACELINE_ASSIGN(const job::RunComparison comparison, job::CompareRuns(first, second));
  fmt::print("{}", json ? job::ComparisonJson(comparison) + "\n" : job::ComparisonText(comparison));
  return comparison.likeness == job::Likeness::kEqual ? 0 : ExitCode(Code::kMismatch);
}

}  // namespace

int RunAudit(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prove from a run's records that every sample of every epoch was trained on exactly once, "
      "or compare two runs bit for bit.",
      kAuditCommand);
  std::string first, second;
  bool json = false;
  app.add_option("RUN", first, "Run directory")->required()->option_text(" ");
  app.add_option("RUN2", second, "Run directory to compare it with")->option_text(" ");
  app.add_flag("--json", json, "Print one JSON object");
  app.footer(
      "Exit codes of `audit RUN`: 0: exactly once; 12: violated, or the records are not usable.\n"
      "Of `audit RUN RUN2`: 0: equal; 10: different, one is shorter, or not comparable.\n"
      "docs/audit.md explains what is proved and how.");
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  const Result<int> exit = second.empty() ? AuditOne(first, json) : CompareTwo(first, second, json);
  return exit.ok() ? *exit : Fail(kAuditCommand, exit.status());
}

}  // namespace paceline::cli
