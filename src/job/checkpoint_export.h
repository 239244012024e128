#pragma once

#include <string>

#include "base/status.h"
#include "disk/file_system.h"
#include "job/server_export.h"

namespace paceline::job {

// True when the run keeps its parameters in checkpoints, not on servers.
Result<bool> HasCheckpoints(disk::FileSystem& fs, const std::string& run);

enum class Average {
  kLeaveOut,
  kExport,  // of the parameters (--ema)
};

// Writes the parameters and running statistics of a run's newest checkpoint to
// OUT/model.safetensors, under PyTorch's names and in their shapes, and their average to
// OUT/ema.safetensors. kInvalidArgument: a file is there already, or the run has no average.
// kAlreadyRunning while the run lives, kBadCheckpoint when no checkpoint is whole.
Result<ExportSummary> ExportCheckpoint(disk::FileSystem& fs, const std::string& run,
                                       const std::string& out, Average average);

}  // namespace paceline::job
