#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"
#include "ps/server_values.h"
#include "ps/snapshot_reader.h"

namespace paceline::ps {

// What one server begins with that continues a job whose servers, perhaps of another number, left
// these folders: the rows and dense floats that are now its own, with their optimiser. Only reads.
// kBadCheckpoint names the folder that has no snapshot, whose log goes on behind it (it was not
// stopped properly), or that does not belong to the others.
Result<ServerState> LoadOtherServers(disk::FileSystem& fs, const std::vector<std::string>& folders,
                                     const ServerValuesOptions& options);

// Whether LoadOtherServers() would take these folders; reads all of them.
Status CheckOtherServers(disk::FileSystem& fs, const std::vector<std::string>& folders);

}  // namespace paceline::ps
