#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bench/table_perf.h"
#include "cli/parse.h"
#include "job/machine.h"
#include "job/stop_signal.h"
#include "paceline/commands.h"
#include "paceline/provenance.h"

namespace paceline::cli {

namespace {

constexpr char kPerfTableCommand[] = "paceline perf table";

}  // namespace

int RunTablePerf(const std::vector<std::string>& raw) {
  CLI::App app(
      "Grows a sparse table of a parameter server and says at each size what it takes: memory, "
      "pushes, a snapshot, and a server that begins with it.",
      kPerfTableCommand);
  app.option_defaults()->always_capture_default();
  bench::TablePerfConfig config;
  bool json = false;
  app.add_option("--rows", config.rows, "Rising sizes at which to measure")->delimiter(',');
  app.add_option("--dim", config.dim, "Floats of a row");
  app.add_option("--optimizer", config.optimizer, "sgd, momentum, adagrad, adam or ftrl");
  app.add_option("--ids", config.ids, "Rows of a push");
  app.add_option("--pushes", config.pushes, "Pushes at each size");
  app.add_option("--table-store", config.table_store, "memory or rocksdb");
  app.add_option("--folder", config.folder,
                 "For snapshots, in a new folder below; default: the system's temporary folder");
  app.add_flag("--json", json, "Print the results as one JSON object");
  if (const auto exit = ParseArguments(app, raw)) return *exit;

  bench::TablePerfResults results{.provenance = MakeProvenance(kPerfTableCommand, raw),
                                  .machine = job::ReadMachine(),
                                  .config = config,
                                  .points = {}};
  const std::stop_source stop;
  const job::StopWatcher watcher(stop);
  const auto progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const Status measured = bench::RunTablePerf(progress, stop.get_token(), results);
  if (!measured.ok()) return Fail(kPerfTableCommand, measured);
  fmt::print("{}\n", json ? bench::ToJson(results, bench::JsonStyle::kOneLine)
                          : bench::TablePerfTable(results));
  return 0;
}

}  // namespace paceline::cli
