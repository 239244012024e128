#include <cstdlib>
#include <sstream>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bench/perf_report.h"
#include "bench/perf_run.h"
#include "bench/perf_table.h"
#include "cli/parse.h"
#include "job/machine.h"
#include "job/run_dir.h"
#include "job/stop_signal.h"
#include "paceline/commands.h"
#include "paceline/provenance.h"

namespace paceline::cli {

namespace {

constexpr char kPerfCommand[] = "paceline perf";

struct PerfArguments {
  bench::PerfRunOptions options;
  std::string collective;
  std::string min, max;  // empty: by collective
  int check = 1;
  std::string out = "bench-out/perf";
  bool json = false;
};

void AddFlags(CLI::App& app, PerfArguments& arguments) {
  bench::PerfRunOptions& options = arguments.options;
  bench::PerfConfig& config = options.config;
  app.option_defaults()->always_capture_default();
  app.add_option("collective", arguments.collective,
                 "allreduce, allgather, reducescatter, broadcast or latency")
      ->required();
  app.add_option("--workers", config.workers, "Number of ranks");
  app.add_option("--engines", options.engines, "Engines; the first that runs is the reference")
      ->delimiter(',');
  app.add_option("-b", arguments.min, "Smallest size in bytes, K, M or G (binary); 4K");
  app.add_option("-e", arguments.max, "Largest size; 64M");
  app.add_option("-f", config.sizes.factor, "Factor between sizes");
  app.add_option("-n", config.iterations, "Iterations of a round; 0: by size");
  app.add_option("-w", config.warmup, "Iterations to warm up, every round");
  app.add_option("-c", arguments.check, "1: check the results of every round");
  app.add_option("--rounds", config.rounds, "Measured rounds, engines taking turns");
  app.add_option("--mpirun", options.mpirun, "Starts the ranks of engine mpi");
  app.add_option("--rank-prefix", options.rank_prefix,
                 "Starts each rank through this command, e.g. \"ip netns exec {host}\"");
  app.add_option("--hosts", options.hosts, "What {host} stands for, ranks in turn")->delimiter(',');
  app.add_option("--addresses", options.addresses, "Address of each host")->delimiter(',');
  app.add_option("--agent", options.remote_agent,
                 "What stands for ssh between the hosts, for engine mpi");
  app.add_option("--network", config.network, "How the hosts are connected, for the report");
  app.add_option("--out", arguments.out, "Folder for results.json, report.html and logs");
  app.add_flag("--json", arguments.json, "Print the results as one JSON object");
}

std::vector<std::string> Words(const char* text) {
  std::istringstream stream(text == nullptr ? "" : text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Below tools/netns_hosts.sh the ranks go into its namespaces unless the flags say otherwise.
void UseNamespaces(bench::PerfRunOptions* options) {
  if (!options->hosts.empty() || !options->rank_prefix.empty()) return;
  options->hosts = Words(std::getenv("PACELINE_NETNS"));
  options->addresses = Words(std::getenv("PACELINE_NETNS_ADDRESSES"));
  if (options->hosts.empty()) return;
  options->rank_prefix = "ip netns exec {host}";
  const char* agent = std::getenv("PACELINE_NETNS_AGENT");
  if (options->remote_agent.empty() && agent != nullptr) options->remote_agent = agent;
  const char* rate = std::getenv("PACELINE_NETNS_RATE");
  if (options->config.network.empty()) {
    options->config.network = fmt::format("{} emulated hosts{}", options->hosts.size(),
                                          rate == nullptr ? "" : fmt::format(" at {}", rate));
  }
}

Status Resolve(PerfArguments* arguments) {
  bench::PerfRunOptions& options = arguments->options;
  PACELINE_ASSIGN(options.config.op, bench::ParsePerfOp(arguments->collective));
  const bool latency = options.config.op == bench::PerfOp::kLatency;
  if (arguments->min.empty()) arguments->min = latency ? "4" : "4K";
  if (arguments->max.empty()) arguments->max = latency ? "1K" : "64M";
  PACELINE_ASSIGN(options.config.sizes.min_bytes, bench::ParseSize(arguments->min));
  PACELINE_ASSIGN(options.config.sizes.max_bytes, bench::ParseSize(arguments->max));
  options.config.check = arguments->check != 0;
  options.rank_program = ExecutableDirectory() + "/paceline-perf";
  options.out_dir = arguments->out;
  UseNamespaces(&options);
  return bench::Validate(options);
}

Status WriteFiles(const std::string& out, const bench::PerfResults& results) {
  PACELINE_TRY(bench::WritePerfJson(out + "/results.json", results));
  return job::WriteTextFile(out + "/report.html", bench::PerfReport(results));
}

}  // namespace

int RunPerf(const std::vector<std::string>& raw) {
  if (!raw.empty() && raw[0] == "ps") return RunPsPerf({raw.begin() + 1, raw.end()});
  if (!raw.empty() && raw[0] == "table") return RunTablePerf({raw.begin() + 1, raw.end()});
  CLI::App app(
      "Times collective operations of several engines next to each other, with the columns of "
      "nccl-tests. Engines take turns, so that noise hits all of them. `paceline perf ps` times "
      "parameter servers, `paceline perf table` a growing table of one.",
      kPerfCommand);
  PerfArguments arguments;
  AddFlags(app, arguments);
  if (const auto exit = ParseArguments(app, raw)) return *exit;
  if (const Status resolved = Resolve(&arguments); !resolved.ok())
    return Fail(kPerfCommand, resolved);
  if (const Status made = job::RunDirectory(arguments.out).Create(); !made.ok()) {
    return Fail(kPerfCommand, made);
  }
  const job::Machine machine = job::ReadMachine();
  arguments.options.cores = machine.cores;

  const std::stop_source stop;
  const job::StopWatcher watcher(stop);
  const auto progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const bench::PerfOutcome outcome = bench::RunPerf(
      arguments.options, machine, MakeProvenance(kPerfCommand, raw), progress, stop.get_token());
  if (const Status written = WriteFiles(arguments.out, outcome.results); !written.ok()) {
    return Fail(kPerfCommand, written);
  }
  if (arguments.json) {
    fmt::print("{}\n", bench::ToJson(outcome.results, bench::JsonStyle::kOneLine));
  } else {
    fmt::print("{}\nreport: {}/report.html\n", bench::PerfTable(outcome.results), arguments.out);
  }
  return outcome.status.ok() ? 0 : Fail(kPerfCommand, outcome.status);
}

}  // namespace paceline::cli
