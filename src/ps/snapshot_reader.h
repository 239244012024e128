#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"
#include "ps/change_payload.h"
#include "ps/progress.h"
#include "ps/server_values.h"
#include "ps/sync_rounds.h"

namespace paceline::ps {

// What a server has to remember.
struct ServerState {
  std::unique_ptr<ServerValues> values;
  bool initialised = false;
  Progress progress{0};
  SyncRounds rounds;
};

// What comes first in a snapshot.
struct SnapshotHead {
  ServerJob job;
  bool initialised = false;
  std::uint64_t steps = 0;
  Progress progress{0};
};

// Receives a snapshot, the head first. Everything is checked against the head.
class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  virtual Status Head(const SnapshotHead& head) = 0;
  virtual Status Dense(std::size_t plane, std::uint64_t begin, std::span<const float> floats) = 0;
  virtual Status Row(std::uint32_t table, const TableRow& row) = 0;
  // Of a table: rows that were evicted, to be added up, and ids that have no row yet.
  virtual void Evicted(std::uint32_t /*table*/, std::uint64_t /*rows*/) {}
  virtual void WithoutRow(std::uint32_t /*table*/, const WaitingId& /*id*/) {}
  // A push that waits for those of other trainers.
  virtual Status Waiting(std::span<const std::byte> message) = 0;
};
// kBadCheckpoint for a file that WriteSnapshot has not written; kMismatch for another version.
Status ReadSnapshot(disk::FileSystem& fs, const std::string& folder, std::uint64_t number,
                    SnapshotSink& sink);

// The same, for nobody: whether all of it is there.
Status VerifySnapshot(disk::FileSystem& fs, const std::string& folder, std::uint64_t number);

// The state of the server that wrote the snapshot. kMismatch when `options` is another server's.
Result<ServerState> LoadSnapshot(disk::FileSystem& fs, const std::string& folder,
                                 std::uint64_t number, const ServerValuesOptions& options);

}  // namespace paceline::ps
