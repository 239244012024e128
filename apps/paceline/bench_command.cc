#include <cstdlib>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bench/report.h"
#include "bench/results.h"
#include "bench/single_node.h"
#include "bench/table.h"
#include "cli/parse.h"
#include "job/machine.h"
#include "job/run_dir.h"
#include "job/stop_signal.h"
#include "job/worker_environment.h"
#include "model/catalog.h"
#include "paceline/commands.h"
#include "paceline/provenance.h"

namespace paceline::cli {

namespace {

constexpr char kBenchCommand[] = "paceline bench single-node";

struct BenchArguments {
  bench::SingleNodeOptions options;
  std::string out = "bench-out/single-node";
  bool json = false;
};

void AddFlags(CLI::App& app, BenchArguments& arguments) {
  bench::SingleNodeOptions& options = arguments.options;
  app.option_defaults()->always_capture_default();
  app.add_option("--model", options.config.model, "Model to train");
  app.add_option("--batch", options.batches, "Batch sizes")->delimiter(',');
  app.add_option("--threads", options.config.threads, "Threads of each system");
  app.add_option("--peers", options.peers, "Peers to run beside Paceline; 'none' for none")
      ->delimiter(',');
  app.add_option("--rounds", options.config.rounds, "Measured rounds, systems taking turns");
  app.add_option("--samples", options.config.samples_per_round,
                 "A round is as many steps as make this many samples");
  app.add_option("--out", arguments.out, "Folder for results.json, report.html and logs");
  app.add_flag("--json", arguments.json, "Print the results as one JSON object");
}

Status WriteFiles(const std::string& out, const bench::SingleNodeResults& results) {
  PACELINE_TRY(job::WriteTextFile(out + "/results.json", bench::ToJson(results) + "\n"));
  return job::WriteTextFile(out + "/report.html", bench::SingleNodeReport(results));
}

int SingleNode(const std::vector<std::string>& raw) {
  CLI::App app(
      "Training throughput of one process, next to peers: the table \"Single Node Single "
      "Thread\". Systems take turns step by step, so that noise hits all of them.",
      kBenchCommand);
  BenchArguments arguments;
  AddFlags(app, arguments);
  if (const auto exit = ParseArguments(app, raw)) return *exit;
  bench::SingleNodeOptions& options = arguments.options;
  const auto card = model::FindModel(options.config.model);
  if (!card.ok()) return Fail(kBenchCommand, card.status());
  options.expected_params = (*card)->ParameterCount();
  options.expected_tensors = (*card)->TensorCount();
  options.worker = {ExecutableDirectory() + "/paceline-worker", "step-server"};
  options.worker_environment = job::WorkerEnvironment(::getenv);
  if (options.peers == std::vector<std::string>{"none"}) options.peers.clear();
  options.peer_family = (*card)->vocabulary > 0 ? "text" : model::FamilyName((*card)->family);
  options.peers_dir = std::filesystem::path(SourceDirectory()) / "bench" / "peers";
  options.out_dir = arguments.out;
  options.config.cpu = bench::DefaultCpu(options.config.threads);
  if (const Status valid = bench::Validate(options); !valid.ok()) return Fail(kBenchCommand, valid);
  if (const Status made = job::RunDirectory(arguments.out).Create(); !made.ok()) {
    return Fail(kBenchCommand, made);
  }

  const std::stop_source stop;
  const job::StopWatcher watcher(stop);
  const auto progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const bench::SingleNodeOutcome outcome = bench::RunSingleNode(
      options, job::ReadMachine(), MakeProvenance(kBenchCommand, raw), progress, stop.get_token());
  if (const Status written = WriteFiles(arguments.out, outcome.results); !written.ok()) {
    return Fail(kBenchCommand, written);
  }
  if (arguments.json) {
    fmt::print("{}\n", bench::ToJson(outcome.results, bench::JsonStyle::kOneLine));
  } else {
    fmt::print("{}\nreport: {}/report.html\n", bench::SingleNodeTable(outcome.results),
               arguments.out);
  }
  return outcome.status.ok() ? 0 : Fail(kBenchCommand, outcome.status);
}

constexpr char kHelp[] =
    "Measure against peers and write a report.\n\n"
    "Usage: paceline bench BENCHMARK [ARGUMENTS]\n\n"
    "Benchmarks:\n"
    "  single-node  Training throughput of one process\n"
    "  scaling      Training throughput of several workers, alone and together\n"
    "  recovery     How long a training stands still when a worker dies\n\n"
    "`paceline bench BENCHMARK --help` shows the flags.\n";

}  // namespace

int RunBench(const std::vector<std::string>& arguments) {
  const std::string name = arguments.empty() ? "" : arguments.front();
  if (name == "single-node") return SingleNode({arguments.begin() + 1, arguments.end()});
  if (name == "scaling") return RunScalingBench({arguments.begin() + 1, arguments.end()});
  if (name == "recovery") return RunRecoveryBench({arguments.begin() + 1, arguments.end()});
  if (name == "--help" || name == "-h") {
    fmt::print("{}", kHelp);
    return 0;
  }
  return Fail("paceline bench",
              Status::Error(Code::kInvalidArgument,
                            name.empty() ? "which benchmark? see `paceline bench --help`"
                                         : fmt::format("unknown benchmark '{}'; see `paceline "
                                                       "bench --help`",
                                                       name)));
}

}  // namespace paceline::cli
