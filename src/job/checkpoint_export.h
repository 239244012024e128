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

enum class WhichCheckpoint {
  kNewest,
  kBest,  // of all evaluations (--keep-best)
};

struct CheckpointExportOptions {
  WhichCheckpoint which = WhichCheckpoint::kNewest;
  Average average = Average::kLeaveOut;
};

// Writes the parameters and running statistics of a checkpoint of a run to OUT/model.safetensors,
// under PyTorch's names and in their shapes, and their average to OUT/ema.safetensors.
// kInvalidArgument: a file is there already, or the run has no average or no best checkpoint.
// kAlreadyRunning while the run lives, kBadCheckpoint when no checkpoint, or the best one, is
// whole.
Result<ExportSummary> ExportCheckpoint(disk::FileSystem& fs, const std::string& run,
                                       const std::string& out,
                                       const CheckpointExportOptions& options = {});

}  // namespace paceline::job
