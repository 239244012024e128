#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"
#include "ps/progress.h"
#include "ps/server_values.h"
#include "ps/sync_rounds.h"

namespace paceline::ps {

// Numbers of the snapshots in a folder, in order. The newest is whole whatever crashed: it got its
// name when it was durable. Only a medium that forgets can damage it.
Result<std::vector<std::uint64_t>> ListSnapshots(disk::FileSystem& fs, const std::string& folder);
std::string SnapshotPath(const std::string& folder, std::uint64_t number);
// Removes the snapshots before `number` and what crashes left behind.
Status RemoveSnapshotsBefore(disk::FileSystem& fs, const std::string& folder, std::uint64_t number);

// What a snapshot is written from.
struct SnapshotContent {
  const ServerValues& values;  // only its options and job: the values go on
  std::span<const std::unique_ptr<FrozenRows>> tables;
  std::span<const std::uint64_t> evicted;  // rows of each
  const DenseCopy& dense;
  bool initialised = false;
  const Progress& progress;
  const SyncRounds& rounds;
};
// Written under another name and renamed when durable.
Status WriteSnapshot(disk::FileSystem& fs, const std::string& folder, std::uint64_t number,
                     const SnapshotContent& content);

}  // namespace paceline::ps
