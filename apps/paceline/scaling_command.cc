#include <cstdlib>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bench/scaling.h"
#include "bench/scaling_report.h"
#include "cli/parse.h"
#include "job/machine.h"
#include "job/placement.h"
#include "job/run_dir.h"
#include "job/stop_signal.h"
#include "job/worker_environment.h"
#include "model/catalog.h"
#include "paceline/commands.h"
#include "paceline/provenance.h"

namespace paceline::cli {

namespace {

constexpr char kScalingCommand[] = "paceline bench scaling";

struct ScalingArguments {
  bench::ScalingOptions options;
  std::string out = "bench-out/scaling";
  bool json = false;
};

void AddFlags(CLI::App& app, ScalingArguments& arguments) {
  bench::ScalingOptions& options = arguments.options;
  bench::ScalingConfig& config = options.config;
  app.option_defaults()->always_capture_default();
  app.add_option("--model", config.model, "Model to train");
  app.add_option("--workers", config.workers, "Workers of each system");
  app.add_option("--batch", config.batch, "Samples of each worker in a step");
  app.add_option("--threads", config.threads, "Threads of each worker");
  app.add_option("--peer", options.peer, "Peer to run beside Paceline; 'none' for none");
  app.add_option("--rounds", config.rounds, "Measured rounds, systems taking turns");
  app.add_option("--steps", config.steps, "Steps of a round");
  app.add_option("--out", arguments.out, "Folder for results.json, report.html and logs");
  app.add_flag("--json", arguments.json, "Print the results as one JSON object");
}

Status Resolve(ScalingArguments* arguments) {
  bench::ScalingOptions& options = arguments->options;
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(options.config.model));
  options.expected_params = card->ParameterCount();
  options.expected_tensors = card->TensorCount();
  options.worker = {ExecutableDirectory() + "/paceline-worker", "step-server"};
  options.worker_environment = job::WorkerEnvironment(::getenv);
  if (options.peer == "none") options.peer.clear();
  options.peer_family = model::FamilyName(card->family);
  options.peers_dir = std::filesystem::path(SourceDirectory()) / "bench" / "peers";
  options.out_dir = arguments->out;
  PACELINE_TRY(bench::Validate(options));
  options.config.cpus = bench::ScalingCpus(options.config, job::ReadAvailableCpus());
  return job::RunDirectory(arguments->out).Create();
}

Status WriteFiles(const std::string& out, const bench::ScalingResults& results) {
  PACELINE_TRY(job::WriteTextFile(out + "/results.json", bench::ToJson(results) + "\n"));
  return job::WriteTextFile(out + "/report.html", bench::ScalingReport(results));
}

}  // namespace

int RunScalingBench(const std::vector<std::string>& raw) {
  CLI::App app(
      "How much of the training throughput of lone workers the same number of cooperating workers "
      "reaches, next to PyTorch's DistributedDataParallel. Systems take turns, so that noise hits "
      "all of them.",
      kScalingCommand);
  ScalingArguments arguments;
  AddFlags(app, arguments);
  if (const auto exit = ParseArguments(app, raw)) return *exit;
  if (const Status resolved = Resolve(&arguments); !resolved.ok())
    return Fail(kScalingCommand, resolved);

  const std::stop_source stop;
  const job::StopWatcher watcher(stop);  // before the threads of the run
  const auto progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const bench::ScalingOutcome outcome =
      bench::RunScaling(arguments.options, job::ReadMachine(), MakeProvenance(kScalingCommand, raw),
                        progress, stop.get_token());
  if (const Status written = WriteFiles(arguments.out, outcome.results); !written.ok()) {
    return Fail(kScalingCommand, written);
  }
  if (arguments.json) {
    fmt::print("{}\n", bench::ToJson(outcome.results, bench::JsonStyle::kOneLine));
  } else {
    fmt::print("{}\nreport: {}/report.html\n", bench::ScalingTable(outcome.results), arguments.out);
  }
  return outcome.status.ok() ? 0 : Fail(kScalingCommand, outcome.status);
}

}  // namespace paceline::cli
