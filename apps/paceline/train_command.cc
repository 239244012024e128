#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/train_flags.h"
#include "job/machine.h"
#include "job/run_dir.h"
#include "job/worker_environment.h"
#include "model/catalog.h"
#include "paceline/commands.h"

namespace paceline::cli {

namespace {

// Refuses in milliseconds what the worker would refuse after loading torch.
Result<TrainRequest> ParseAndCheck(const std::vector<std::string>& arguments) {
  PACELINE_ASSIGN(TrainRequest request, ParseTrainArguments(arguments));
  if (request.help) return request;
  job::TrainConfig& config = request.config;
  if (config.model.empty()) {
    return Status::Error(Code::kInvalidArgument, "which MODEL? `paceline models` lists them");
  }
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(config.model));
  PACELINE_TRY(Resolve(config, *card, job::ReadMachine().cores));
  return request;
}

}  // namespace

int RunTrain(const std::vector<std::string>& arguments) {
  const auto request = ParseAndCheck(arguments);
  if (!request.ok()) return Fail("paceline train", request.status());
  if (request->help) {
    fmt::print("{}", request->help_text);
    return 0;
  }
  std::vector<std::string> worker{ExecutableDirectory() + "/paceline-worker", "train"};
  worker.insert(worker.end(), arguments.begin(), arguments.end());
  if (request->config.run.empty()) {
    worker.emplace_back("--run");
    worker.push_back(job::DefaultRunPath(request->config.model, SystemClock().UnixSeconds(),
                                         static_cast<int>(::getpid())));
  }
  for (const auto& [name, value] : job::WorkerEnvironment(::getenv)) {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
  std::vector<char*> argv;
  argv.reserve(worker.size() + 1);
  for (std::string& argument : worker) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  return Fail("paceline train",
              Status::Error(Code::kInternal, fmt::format("cannot start {}: {}", worker.front(),
                                                         std::strerror(errno))));
}

}  // namespace paceline::cli
