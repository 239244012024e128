#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "job/train_config.h"

namespace paceline::cli {

// What the arguments of `paceline train` ask for.
struct TrainRequest {
  job::TrainConfig config;
  bool help = false;
  std::string help_text;
};

// Parses the arguments after `train`: a TOML file (--config, or the run's own with --resume), then
// flags over it. Does not resolve defaults. kInvalidArgument names the argument.
Result<TrainRequest> ParseTrainArguments(const std::vector<std::string>& arguments);

// Resolves defaults and refuses in milliseconds what the worker would refuse after loading torch.
Status CheckTraining(job::TrainConfig& config);

}  // namespace paceline::cli
