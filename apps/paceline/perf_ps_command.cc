#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bench/perf_case.h"
#include "bench/ps_perf.h"
#include "cli/parse.h"
#include "job/machine.h"
#include "job/stop_signal.h"
#include "paceline/commands.h"
#include "paceline/provenance.h"

namespace paceline::cli {

namespace {

constexpr char kPerfPsCommand[] = "paceline perf ps";

}  // namespace

int RunPsPerf(const std::vector<std::string>& raw) {
  CLI::App app(
      "Times pushes and pulls of parameter servers on this machine, over shared memory and over "
      "TCP, next to what moving the same bytes costs without a server, with gRPC and with iperf3 "
      "(where they are installed). Everything takes turns, so that noise hits all of it.",
      kPerfPsCommand);
  app.option_defaults()->always_capture_default();
  bench::PsPerfConfig config;
  std::string dense = "58M";
  bool json = false;
  app.add_option("--servers", config.servers, "Number of server processes");
  app.add_option("--workers", config.trainers, "Number of trainers, which are threads");
  app.add_option("--dense", dense, "Dense values in bytes, K, M or G (binary)");
  app.add_option("--rows", config.rows, "Rows of the table");
  app.add_option("--dim", config.dim, "Floats of a row");
  app.add_option("--ids", config.ids, "Rows of a sparse push or pull");
  app.add_option("--pulls", config.small_pulls, "Pulls of one row in a round, for the latency");
  app.add_option("--rounds", config.rounds, "Measured rounds, after one to warm up");
  app.add_option("--wal", config.wal, "Of the servers: off, group or always");
  app.add_option("--peers", config.peers, "Peers to run beside; 'none' for none")->delimiter(',');
  app.add_flag("--json", json, "Print the results as one JSON object");
  if (const auto exit = ParseArguments(app, raw)) return *exit;
  const auto bytes = bench::ParseSize(dense);
  if (!bytes.ok()) return Fail(kPerfPsCommand, bytes.status());
  config.dense_bytes = *bytes;
  if (config.peers == std::vector<std::string>{"none"}) config.peers.clear();

  bench::PsPerfResults results{.provenance = MakeProvenance(kPerfPsCommand, raw),
                               .machine = job::ReadMachine(),
                               .config = config,
                               .measures = {},
                               .skipped = {}};
  const std::stop_source stop;
  const job::StopWatcher watcher(stop);
  const auto progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const bench::PsPerfPrograms programs{.paceline = ExecutableDirectory() + "/paceline",
                                       .grpc_unary = ExecutableDirectory() + "/grpc_unary"};
  const Status measured = bench::RunPsPerf(programs, progress, stop.get_token(), results);
  if (!measured.ok()) return Fail(kPerfPsCommand, measured);
  fmt::print("{}\n", json ? bench::ToJson(results, bench::JsonStyle::kOneLine)
                          : bench::PsPerfTable(results));
  return 0;
}

}  // namespace paceline::cli
