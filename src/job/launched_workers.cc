#include "job/launched_workers.h"

#include <fmt/format.h>

namespace paceline::job {

Status TakeLaunchedWorkers(TrainConfig& config, const std::string& source, std::uint64_t started) {
  const auto workers = static_cast<std::int64_t>(started);
  if (config.workers > 1 && config.workers != workers) {
    return Status::Error(Code::kInvalidArgument, fmt::format("--workers {}, but {} started {}",
                                                             config.workers, source, workers));
  }
  config.workers = workers;
  return {};
}

}  // namespace paceline::job
