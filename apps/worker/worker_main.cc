#include "worker/worker_main.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "cli/parse.h"
#include "cli/train_flags.h"
#include "disk/faulty_file_system.h"
#include "disk/file_system.h"
#include "job/group.h"
#include "job/launch_environment.h"
#include "job/launched_workers.h"
#include "job/lease_taker.h"
#include "job/machine.h"
#include "job/model_choice.h"
#include "job/placement.h"
#include "job/progress.h"
#include "job/run_summary.h"
#include "job/server_access.h"
#include "job/stop_signal.h"
#include "job/training_group.h"
#include "job/worker_environment.h"
#include "net/loop.h"
#include "train/step_server.h"
#include "train/training_run.h"

namespace paceline::cli {
namespace {

// Faults that tests inject: PACELINE_FAULTS="fs:kill-before=7", "nan:step=3",
// "kill:step=3,tensor=7" (when backward has come to that gradient) or "cut:step=5,ms=900" (no
// network), each also for one worker alone: "rank=1,nan:step=3".
struct Faults {
  disk::FaultPlan file_system;
  train::GradientFault gradient;
  std::optional<train::RunEnvironment::Cut> cut;
};

Result<Faults> FaultsFromEnvironment(Rank rank) {
  Faults faults;
  const char* raw = std::getenv("PACELINE_FAULTS");
  std::string text = raw == nullptr ? "" : raw;
  if (text.starts_with("rank=")) {
    const std::size_t comma = text.find(',');
    if (text.substr(0, comma) != fmt::format("rank={}", rank.value())) return faults;
    text = comma == std::string::npos ? "" : text.substr(comma + 1);
  }
  constexpr std::string_view kFileSystem = "fs:", kNan = "nan:step=";
  unsigned long long step = 0, ms = 0, tensor = 0;
  if (text.empty()) return faults;
  if (text.starts_with(kFileSystem)) {
    PACELINE_ASSIGN(faults.file_system, disk::ParseFaultPlan(text.substr(kFileSystem.size())));
  } else if (text.starts_with(kNan)) {
    faults.gradient = train::PoisonAt(Step(std::strtoull(text.c_str() + kNan.size(), nullptr, 10)));
  } else if (std::sscanf(text.c_str(), "kill:step=%llu,tensor=%llu", &step, &tensor) == 2) {
    faults.gradient = [step, tensor](Step now, std::size_t which, std::span<float>) {
      if (now == Step(step) && which == tensor) ::raise(SIGKILL);
    };
  } else if (std::sscanf(text.c_str(), "cut:step=%llu,ms=%llu", &step, &ms) == 2) {
    faults.cut = {step, std::chrono::milliseconds(ms)};
  } else {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("PACELINE_FAULTS is '{}'; it takes fs:..., nan:step=N, kill:step=N,tensor=N or "
                    "cut:step=N,ms=N",
                    text));
  }
  PACELINE_LOG(Warning, "faults are injected: {}", text);
  return faults;
}

// Whoever started this process has said which of how many workers it is.
Result<job::LaunchEnvironment> ReadLaunch(job::TrainConfig& config) {
  PACELINE_ASSIGN(const auto found, job::RecognizeLaunch(::getenv));
  const job::LaunchEnvironment launch = found.value_or(job::LaunchEnvironment{});
  if (found && launch.source != "paceline" && launch.rank == Rank(0) && !config.quiet) {
    fmt::print(stderr, "{}\n", launch.Describe());
  }
  if (!found && config.workers > 1) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--workers {}, but nobody started the others; use "
                                     "`paceline train`",
                                     config.workers));
  }
  PACELINE_TRY(job::TakeLaunchedWorkers(config, launch.source, launch.world));
  if (config.threads == 0 && launch.local_world && !config.reproducible) {
    const job::Placement placement =
        job::PlanPlacement({.available = job::ReadAvailableCpus(), .workers = *launch.local_world});
    config.threads = placement.workers.front().threads;
  }
  return launch;
}

// What a worker has to say at the end; only the one that keeps the records does.
struct Outcome {
  job::RunSummary summary;
  bool leads = true;
};

struct Groups {
  job::Group* fixed = nullptr;
  job::ElasticGroup* elastic = nullptr;
  const job::LaunchEnvironment* servers = nullptr;  // parameters live on the servers that it names
};

// The model of this program's own with that name, if it has one.
const OwnModel* FindOwn(const std::vector<OwnModel>& own, const std::string& name) {
  const auto found =
      std::ranges::find(own, name, [](const OwnModel& one) { return one.card.name; });
  return found == own.end() ? nullptr : &*found;
}

Result<Outcome> RunWorker(const job::TrainConfig& config, Rank rank, const OwnModel* own,
                          const Groups& groups) {
  net::Loop loop;  // of the connections to servers
  PACELINE_ASSIGN(const Faults faults, FaultsFromEnvironment(rank));
  disk::PosixFileSystem posix;
  disk::FaultyFileSystem file_system(posix, faults.file_system);
  job::Trace trace;
  // In an elastic run anybody may come to lead, and show where the run is.
  const bool shows = !config.quiet && (rank == Rank(0) || config.Elastic());
  train::RunEnvironment environment{
      .clock = SystemClock(),
      .file_system = file_system,
      .stop_signal = job::StopRequested,
      .progress = shows ? job::DetectProgressStyle() : job::ProgressStyle::kOff,
      .config_text = ToToml(config),
      .gradient_fault = faults.gradient,
      .elastic = groups.elastic,
      .cut = faults.cut,
      .trace = config.trace.empty() ? nullptr : &trace};
  if (own != nullptr) {
    environment.build_model = [own](const job::TrainConfig& run) -> Result<train::BuiltModel> {
      return train::WithLabelSmoothing(own->build(run.seed), run.label_smoothing);
    };
    environment.open_data = own->open_data;
  }
  if (groups.fixed != nullptr) {
    environment.engine = &groups.fixed->engine();
    environment.group = groups.fixed->description();
  }
  if (groups.servers != nullptr) {
    environment.rank = rank.value();
    environment.connect_servers = [&](const ps::JobSpec& job) {
      return job::ConnectToServers(loop, config, *groups.servers, job, ::getenv);
    };
  }
  if (groups.servers != nullptr && config.Elastic()) {
    environment.join_lender = [&](const std::string& fingerprint, std::uint64_t samples) {
      return job::JoinLender(config, *groups.servers,
                             {.fingerprint = fingerprint, .samples = samples}, environment.clock,
                             ::getenv);
    };
  }
  PACELINE_ASSIGN(auto run, train::TrainingRun::Open(config, environment));
  PACELINE_ASSIGN(job::RunSummary summary, run->Run());
  return Outcome{std::move(summary), run->Leads()};
}

Result<Outcome> TrainInGroup(const job::TrainConfig& config, const job::LaunchEnvironment& launch,
                             const model::ModelCard& card, const OwnModel* own) {
  PACELINE_ASSIGN(const auto group, job::JoinTrainingGroup(config, launch, card, ::getenv));
  auto outcome = RunWorker(config, launch.rank, own, {.fixed = group.get()});
  const Status ended = outcome.ok() ? group->Leave() : outcome.status();
  if (!outcome.ok()) group->Abort(ended);
  if (!ended.ok()) return ended.Wrap(fmt::format("rank {}", launch.rank.value()));
  return outcome;
}

Result<Outcome> Train(job::TrainConfig& config, const std::vector<OwnModel>& all_own) {
  const OwnModel* own = FindOwn(all_own, config.model);
  model::ModelCard card;
  if (own != nullptr) {
    card = own->card;
  } else {
    PACELINE_ASSIGN(card, job::ChooseModel(config));
  }
  PACELINE_ASSIGN(const job::LaunchEnvironment launch, ReadLaunch(config));
  PACELINE_TRY(Resolve(config, card, job::ReadMachine().cores));
  if (config.run.empty()) {
    config.run = job::DefaultRunPath(config.model, SystemClock().UnixSeconds(),
                                     static_cast<int>(::getpid()));
  }
  job::InstallStopSignals();
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a disk error to report, not a way to die
  train::SetTorchThreads(static_cast<int>(config.threads));
  if (config.strategy == "ps") {
    auto outcome = RunWorker(config, launch.rank, own, {.servers = &launch});
    if (!outcome.ok()) return outcome.status().Wrap(fmt::format("trainer {}", launch.rank.value()));
    return outcome;
  }
  if (config.Elastic()) {
    PACELINE_ASSIGN(const auto group,
                    job::JoinElasticGroup(config, launch, card, SystemClock(), ::getenv));
    return RunWorker(config, launch.rank, own, {.elastic = group.get()});
  }
  if (config.strategy == "local") return RunWorker(config, launch.rank, own, {});
  return TrainInGroup(config, launch, card, own);
}

int RunTrain(const std::vector<std::string>& arguments, const std::vector<OwnModel>& own) {
  constexpr char kName[] = "paceline train";
  auto request = ParseTrainArguments(arguments);
  if (!request.ok()) return Fail(kName, request.status());
  if (request->help) {
    fmt::print("{}", request->help_text);
    return 0;
  }
  if (const Status cpu = CheckCpu(); !cpu.ok()) return Fail(kName, cpu);
  const auto outcome = Train(request->config, own);
  if (!outcome.ok()) return Fail(kName, outcome.status());
  if (!outcome->leads) return 0;
  const job::RunSummary& summary = outcome->summary;
  fmt::print("{}", request->config.json ? summary.Json() + "\n" : summary.Text());
  return 0;
}

// A step server with PACELINE_RANK in its environment trains its shard of a group's steps. Other
// launchers do not count: a benchmark below one of them still measures lone processes.
Status ServeSteps(train::StepServerOptions options) {
  if (std::getenv("PACELINE_RANK") == nullptr) {
    return train::ServeSteps(options, SystemClock(), std::cin, std::cout);
  }
  PACELINE_ASSIGN(const auto found, job::RecognizeLaunch(::getenv));
  PACELINE_CHECK(found.has_value(), "PACELINE_RANK is a launch");
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(options.model));
  const auto world = static_cast<std::int64_t>(found->world);
  const job::TrainConfig config{.model = options.model,
                                .workers = world,
                                .shards = world,
                                .batch = options.batch,
                                .seed = options.seed,
                                .threads = options.threads};
  PACELINE_ASSIGN(const auto group, job::JoinTrainingGroup(config, *found, *card, ::getenv));
  options.engine = &group->engine();
  const Status served = train::ServeSteps(options, SystemClock(), std::cin, std::cout);
  if (!served.ok()) group->Abort(served);
  return served.ok() ? group->Leave() : served;
}

int RunStepServer(const std::vector<std::string>& arguments) {
  CLI::App app("Perform training steps on demand, for benchmarks: bench/peers/README.md.",
               "paceline-worker step-server");
  train::StepServerOptions options;
  app.add_option("--model", options.model, "Model");
  app.add_option("--batch", options.batch, "Samples per step and worker")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Threads")->check(CLI::PositiveNumber);
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  const Status served = ServeSteps(options);
  return served.ok() ? 0 : Fail(app.get_name(), served);
}

constexpr char kHelp[] =
    "paceline-worker: the trainer behind `paceline train`.\n\n"
    "Usage: paceline-worker train ARGUMENTS       as `paceline train`\n"
    "       paceline-worker step-server ARGUMENTS training steps on demand, for benchmarks\n";

int Main(const std::vector<std::string>& arguments, const std::vector<OwnModel>& own) {
  SetLogOptions(LogOptionsFromEnvironment([](const char* name) { return std::getenv(name); }));
  const std::string command = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (command == "train") return RunTrain(rest, own);
  if (command == "step-server") return RunStepServer(rest);
  const bool help = command == "--help" || command == "-h";
  fmt::print(help ? stdout : stderr, "{}", kHelp);
  return help ? 0 : 2;
}

// What `paceline` starts has its environment. A worker of mpirun, srun or ssh has not, and would
// compute with other BLAS kernels, so with other bits and more slowly: it starts itself again. If
// that fails it goes on as it is.
void StartAgainForBlas(char** argv) {
  const auto missing = job::WorkerEnvironment(::getenv);
  if (!missing.contains("OPENBLAS_CORETYPE")) return;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  for (const auto& [name, value] : missing) ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  ::execv(program.c_str(), argv);
}

}  // namespace
}  // namespace paceline::cli

namespace paceline {

int WorkerMain(int argc, char** argv, const std::vector<OwnModel>& own) {
  cli::StartAgainForBlas(argv);
  return cli::Main({argv + 1, argv + argc}, own);
}

}  // namespace paceline
