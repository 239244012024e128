#pragma once

#include <string>

#include "base/status.h"
#include "disk/file_system.h"
#include "job/server_export.h"

namespace paceline::job {

// True when the run keeps its parameters in checkpoints, not on servers.
Result<bool> HasCheckpoints(disk::FileSystem& fs, const std::string& run);

// Writes the parameters and running statistics of a run's newest checkpoint to
// OUT/model.safetensors, under PyTorch's names and in their shapes. A file that is there already is
// kInvalidArgument. kAlreadyRunning while the run lives, kBadCheckpoint when no checkpoint is
// whole.
Result<ExportSummary> ExportCheckpoint(disk::FileSystem& fs, const std::string& run,
                                       const std::string& out);

}  // namespace paceline::job
