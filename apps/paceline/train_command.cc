#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/train_flags.h"
#include "job/launch_environment.h"
#include "job/run_dir.h"
#include "job/worker_environment.h"
#include "model/catalog.h"
#include "paceline/commands.h"
#include "paceline/elastic_launch.h"
#include "paceline/fused_train.h"
#include "paceline/local_launch.h"

namespace paceline::cli {

namespace {

Result<TrainRequest> ParseAndCheck(const std::vector<std::string>& arguments) {
  PACELINE_ASSIGN(TrainRequest request, ParseTrainArguments(arguments));
  if (!request.help) PACELINE_TRY(CheckTraining(request.config));
  return request;
}

// Becomes the worker: wrong flags were refused already, and Ctrl-C reaches the trainer directly.
Status ExecWorker(std::vector<std::string> worker) {
  for (const auto& [name, value] : job::WorkerEnvironment(::getenv)) {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
  std::vector<char*> argv;
  argv.reserve(worker.size() + 1);
  for (std::string& argument : worker) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  return Status::Error(Code::kInternal,
                       fmt::format("cannot start {}: {}", worker.front(), std::strerror(errno)));
}

Result<int> Start(TrainRequest request, const std::vector<std::string>& arguments) {
  std::vector<std::string> worker{ExecutableDirectory() + "/paceline-worker", "train"};
  worker.insert(worker.end(), arguments.begin(), arguments.end());
  if (request.config.run.empty()) {
    request.config.run = job::DefaultRunPath(request.config.model, SystemClock().UnixSeconds(),
                                             static_cast<int>(::getpid()));
    worker.insert(worker.end(), {"--run", request.config.run});
  }
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(request.config.model));
  if (card->Fused()) return TrainFused(request.config);
  PACELINE_ASSIGN(const auto launch, job::RecognizeLaunch(::getenv));
  if (request.config.Elastic() && !launch) return LaunchElastic(request.config, worker);
  const bool one_of_many = launch && launch->processes_per_node == 1;
  if (one_of_many || (!launch && request.config.workers == 1)) return ExecWorker(worker);
  return LaunchLocally(request.config, launch, worker);
}

}  // namespace

int RunTrain(const std::vector<std::string>& arguments) {
  const auto request = ParseAndCheck(arguments);
  if (!request.ok()) return Fail("paceline train", request.status());
  if (request->help) {
    fmt::print("{}", request->help_text);
    return 0;
  }
  const auto code = Start(*request, arguments);
  return code.ok() ? *code : Fail("paceline train", code.status());
}

}  // namespace paceline::cli
