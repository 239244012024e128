#include <unistd.h>

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/train_flags.h"
#include "job/launch_environment.h"
#include "job/launched_workers.h"
#include "job/run_dir.h"
#include "job/worker_environment.h"
#include "model/catalog.h"
#include "paceline/commands.h"
#include "paceline/elastic_launch.h"
#include "paceline/fused_train.h"
#include "paceline/local_launch.h"
#include "paceline/server_launch.h"

namespace paceline::cli {

namespace {

using Launch = std::optional<job::LaunchEnvironment>;

// The flags, resolved for as many trainers as somebody has started.
Status Check(job::TrainConfig& config, const Launch& launch) {
  if (launch && launch->role == job::LaunchRole::kTrainer) {
    PACELINE_TRY(job::TakeLaunchedWorkers(config, launch->source,
                                          launch->world * launch->processes_per_node));
  }
  return CheckTraining(config);
}

// The flags and whoever started this process must mean the same.
Status CheckRole(const job::TrainConfig& config, const job::LaunchEnvironment& launch,
                 bool run_given) {
  const bool server = launch.role == job::LaunchRole::kServer;
  if (server && !config.UsesServers()) {
    return WrongArguments(
        fmt::format("{} started a parameter server; it takes --strategy ps", launch.source));
  }
  if (server && !run_given) {  // where it finds its state when it comes back
    return WrongArguments("a parameter server needs --run DIR, the same whenever it is started");
  }
  if (launch.role != job::LaunchRole::kTrainer) return {};
  if (config.UsesServers() && launch.servers.empty()) {
    return WrongArguments(fmt::format(
        "{} says where no servers are; set PACELINE_SERVERS=HOST:PORT,...", launch.source));
  }
  if (!config.UsesServers() && !launch.servers.empty()) {
    return WrongArguments(fmt::format(
        "{} started parameter servers; the trainers take --strategy ps", launch.source));
  }
  return {};
}

Result<int> Start(TrainRequest request, const std::vector<std::string>& arguments) {
  PACELINE_ASSIGN(const Launch launch, job::RecognizeLaunch(::getenv));
  const bool run_given = !request.config.run.empty();
  if (launch) PACELINE_TRY(CheckRole(request.config, *launch, run_given));
  PACELINE_TRY(Check(request.config, launch));
  const char* ours = request.config.Fused() ? "/paceline" : "/paceline-worker";
  const std::string& own = request.config.worker_program;
  std::vector<std::string> worker{own.empty() ? ExecutableDirectory() + ours : own, "train"};
  worker.insert(worker.end(), arguments.begin(), arguments.end());
  if (!run_given) {
    request.config.run = job::DefaultRunPath(request.config.model, SystemClock().UnixSeconds(),
                                             static_cast<int>(::getpid()));
    worker.insert(worker.end(), {"--run", request.config.run});
  }
  if (launch && launch->role != job::LaunchRole::kTrainer) {
    return BecomeServer(request.config, *launch);
  }
  if (request.config.UsesServers() && !launch) return LaunchWithServers(request.config, worker);
  const bool one_of_many = launch && launch->processes_per_node == 1;
  if (request.config.Fused() && (one_of_many || !launch)) {
    return TrainFused(request.config, launch.value_or(job::LaunchEnvironment{}));
  }
  if (request.config.Elastic() && !launch) return LaunchElastic(request.config, worker);
  if (one_of_many || (!launch && request.config.workers == 1)) {
    // Wrong flags were refused already, and Ctrl-C reaches the trainer directly.
    return BecomeProgram(worker, job::WorkerEnvironment(::getenv));
  }
  return LaunchLocally(request.config, launch, worker);
}

}  // namespace

int RunTrain(const std::vector<std::string>& arguments) {
  const auto request = ParseTrainArguments(arguments);
  if (!request.ok()) return Fail("paceline train", request.status());
  if (request->help) {
    fmt::print("{}", request->help_text);
    return 0;
  }
  const auto code = Start(*request, arguments);
  return code.ok() ? *code : Fail("paceline train", code.status());
}

}  // namespace paceline::cli
