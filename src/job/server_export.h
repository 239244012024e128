#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "disk/file_system.h"

namespace paceline::job {

enum class ExportFormat {
  kSafetensors,  // everything in model.safetensors; of a table NAME.ids and NAME.values
  kText,         // NAME.txt of each table, as word2vec writes it; dense.safetensors
};
// "safetensors", "text".
Result<ExportFormat> ParseExportFormat(std::string_view name);

struct ExportSummary {
  struct Table {
    std::string name;
    std::uint64_t rows = 0;
    std::uint64_t dim = 0;
  };
  std::optional<Step> step;  // of the checkpoint; absent: of servers
  std::vector<Table> tables;
  std::uint64_t dense_tensors = 0;
  std::uint64_t dense_floats = 0;
  std::vector<std::string> files;
};

// Writes the parameters that the servers of a run, or a local run of a model with tables, have left
// in their last snapshots into the directory `out`, which is made if need be. Files that are there
// already are kInvalidArgument. Rows are read one after the other, several times: tables may be
// larger than memory, dense tensors may not. kAlreadyRunning while the run lives, kBadCheckpoint
// when it was not stopped properly, kNotFound when it has no servers.
Result<ExportSummary> ExportParameters(disk::FileSystem& fs, const std::string& run,
                                       const std::string& out, ExportFormat format);

}  // namespace paceline::job
