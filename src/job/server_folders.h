#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"

namespace paceline::job {

// Where server `index` of a run keeps its data, and what it tells about itself.
std::string ServerFolder(const std::string& run, std::uint64_t index);
std::string ServerStatusFile(const std::string& run, std::uint64_t index);

// Before `servers` servers of a run start: folders of earlier servers that they begin with, empty
// when they go on with their own. Servers of another number are moved to RUN/servers/before-N, all
// or none, and stay there. Whoever calls it holds the lock of RUN/servers. kBadCheckpoint when the
// earlier servers were not stopped together: nothing has changed then.
Result<std::vector<std::string>> PrepareServerFolders(disk::FileSystem& fs, const std::string& run,
                                                      std::uint64_t servers);

}  // namespace paceline::job
