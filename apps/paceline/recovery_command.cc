#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bench/recovery.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "job/machine.h"
#include "job/run_dir.h"
#include "job/stop_signal.h"
#include "model/catalog.h"
#include "paceline/commands.h"
#include "paceline/provenance.h"

namespace paceline::cli {

namespace {

constexpr char kRecoveryCommand[] = "paceline bench recovery";

void AddFlags(CLI::App& app, bench::RecoveryConfig& config) {
  app.option_defaults()->always_capture_default();
  app.add_option("--model", config.model, "Model to train");
  app.add_option("--workers", config.workers, "Workers");
  app.add_option("--batch", config.batch, "Samples of each worker in a step");
  app.add_option("--fault", config.fault,
                 "kill (the process dies), stop (it hangs) or cut (it loses its network)");
  app.add_option("--faults", config.faults, "How often, at random moments; 0: never");
  app.add_option("--heartbeat", config.heartbeat, "Seconds between signs of life");
  app.add_option("--dead-timeout", config.dead_timeout,
                 "Seconds until a silent worker is given up");
  app.add_option("--shared-memory", config.shared_memory, "auto or off");
  app.add_option("--seed", config.seed, "Decides who fails when");
  app.add_option("--cost-rounds", config.cost_rounds,
                 "Turns of an elastic and of a fixed group, which are compared; 0: none");
  app.add_option("--cost-steps", config.cost_steps, "Steps of each turn");
}

}  // namespace

int RunRecoveryBench(const std::vector<std::string>& raw) {
  CLI::App app(
      "How long a training stands still when a worker dies or hangs, and when another joins; and "
      "what being elastic costs when nothing happens.",
      kRecoveryCommand);
  bench::RecoveryOptions options{.paceline = ExecutableDirectory() + "/paceline",
                                 .out_dir = "bench-out/recovery"};
  bool json = false;
  AddFlags(app, options.config);
  app.add_option("--out", options.out_dir, "Folder for results.json and the run");
  app.add_flag("--json", json, "Print the results as one JSON object");
  if (const auto exit = ParseArguments(app, raw)) return *exit;
  const auto card = model::FindModel(options.config.model);
  if (!card.ok()) return Fail(kRecoveryCommand, card.status());
  if (const Status valid = bench::Validate(options.config); !valid.ok())
    return Fail(kRecoveryCommand, valid);
  if (const Status made = job::RunDirectory(options.out_dir).Create(); !made.ok()) {
    return Fail(kRecoveryCommand, made);
  }
  const std::stop_source stop;
  const job::StopWatcher watcher(stop);
  const bench::RecoveryResults results = bench::RunRecovery(
      options, job::ReadMachine(), MakeProvenance(kRecoveryCommand, raw),
      [](const std::string& line) { fmt::print(stderr, "{}\n", line); }, stop.get_token());
  const Status written =
      job::WriteTextFile(options.out_dir + "/results.json", bench::ToJson(results) + "\n");
  if (!written.ok()) return Fail(kRecoveryCommand, written);
  fmt::print("{}", json ? bench::ToJson(results) + "\n" : bench::RecoveryTable(results));
  if (results.failure.empty()) return 0;
  return Fail(kRecoveryCommand, Status::Error(Code::kInternal, results.failure));
}

}  // namespace paceline::cli
