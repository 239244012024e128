// paceline-worker: the trainer, the only program that links libtorch. `paceline train` starts it
// with the same arguments and the run directory made explicit.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "cli/parse.h"
#include "cli/train_flags.h"
#include "disk/faulty_file_system.h"
#include "disk/file_system.h"
#include "job/machine.h"
#include "job/progress.h"
#include "job/stop_signal.h"
#include "model/catalog.h"
#include "train/step_server.h"
#include "train/training_run.h"

namespace paceline::cli {
namespace {

// Faults that tests inject: PACELINE_FAULTS="fs:kill-before=7" or "nan:step=3".
struct Faults {
  disk::FaultPlan file_system;
  std::optional<std::uint64_t> poison_at;
};

Result<Faults> FaultsFromEnvironment() {
  Faults faults;
  const char* raw = std::getenv("PACELINE_FAULTS");
  const std::string text = raw == nullptr ? "" : raw;
  constexpr std::string_view kFileSystem = "fs:", kNan = "nan:step=";
  if (text.empty()) return faults;
  if (text.starts_with(kFileSystem)) {
    PACELINE_ASSIGN(faults.file_system, disk::ParseFaultPlan(text.substr(kFileSystem.size())));
  } else if (text.starts_with(kNan)) {
    faults.poison_at = std::strtoull(text.c_str() + kNan.size(), nullptr, 10);
  } else {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("PACELINE_FAULTS is '{}'; it takes fs:... or nan:step=N", text));
  }
  PACELINE_LOG(Warning, "faults are injected: {}", text);
  return faults;
}

Status CheckCpu() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) {
    return Status::Error(Code::kMismatch, "this CPU lacks AVX2, which training needs");
  }
#endif
  return {};
}

Result<train::RunSummary> Train(job::TrainConfig& config) {
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(config.model));
  PACELINE_TRY(Resolve(config, *card, job::ReadMachine().cores));
  PACELINE_ASSIGN(const Faults faults, FaultsFromEnvironment());
  if (config.run.empty()) {
    config.run = job::DefaultRunPath(config.model, SystemClock().UnixSeconds(),
                                     static_cast<int>(::getpid()));
  }
  disk::PosixFileSystem posix;
  disk::FaultyFileSystem file_system(posix, faults.file_system);
  job::InstallStopSignals();
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a disk error to report, not a way to die
  train::SetTorchThreads(static_cast<int>(config.threads));
  PACELINE_ASSIGN(auto run, train::TrainingRun::Open(
                                config, {.clock = SystemClock(),
                                         .file_system = file_system,
                                         .stop_signal = job::StopRequested,
                                         .progress = config.quiet ? job::ProgressStyle::kOff
                                                                  : job::DetectProgressStyle(),
                                         .config_text = ToToml(config),
                                         .poison_at = faults.poison_at}));
  return run->Run();
}

int RunTrain(const std::vector<std::string>& arguments) {
  constexpr char kName[] = "paceline train";
  auto request = ParseTrainArguments(arguments);
  if (!request.ok()) return Fail(kName, request.status());
  if (request->help) {
    fmt::print("{}", request->help_text);
    return 0;
  }
  if (const Status cpu = CheckCpu(); !cpu.ok()) return Fail(kName, cpu);
  const auto summary = Train(request->config);
  if (!summary.ok()) return Fail(kName, summary.status());
  fmt::print("{}", request->config.json ? summary->Json() + "\n" : summary->Text());
  return 0;
}

int RunStepServer(const std::vector<std::string>& arguments) {
  CLI::App app("Perform training steps on demand, for benchmarks: bench/peers/README.md.",
               "paceline-worker step-server");
  train::StepServerOptions options;
  app.add_option("--model", options.model, "Model");
  app.add_option("--batch", options.batch, "Samples per step")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Threads")->check(CLI::PositiveNumber);
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  const Status served = train::ServeSteps(options, SystemClock(), std::cin, std::cout);
  return served.ok() ? 0 : Fail(app.get_name(), served);
}

constexpr char kHelp[] =
    "paceline-worker: the trainer behind `paceline train`.\n\n"
    "Usage: paceline-worker train ARGUMENTS       as `paceline train`\n"
    "       paceline-worker step-server ARGUMENTS training steps on demand, for benchmarks\n";

int Main(const std::vector<std::string>& arguments) {
  SetLogOptions(LogOptionsFromEnvironment([](const char* name) { return std::getenv(name); }));
  const std::string command = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (command == "train") return RunTrain(rest);
  if (command == "step-server") return RunStepServer(rest);
  const bool help = command == "--help" || command == "-h";
  fmt::print(help ? stdout : stderr, "{}", kHelp);
  return help ? 0 : 2;
}

}  // namespace
}  // namespace paceline::cli

int main(int argc, char** argv) { return paceline::cli::Main({argv + 1, argv + argc}); }
