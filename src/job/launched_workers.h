#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "job/train_config.h"

namespace paceline::job {

// Whoever started the trainers has decided how many there are: --workers says the same or nothing.
// Before Resolve(), which divides the work among them.
Status TakeLaunchedWorkers(TrainConfig& config, const std::string& source, std::uint64_t started);

}  // namespace paceline::job
