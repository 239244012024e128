#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::job {

// What a parameter server says about itself in RUN/servers/server-I.json, when it is ready and then
// about every second.
struct ServerRecord {
  std::uint64_t index = 0;    // from the name of the file
  std::uint64_t servers = 0;  // of the run
  std::string endpoint;       // "host:port"
  std::int64_t pid = 0;
  std::uint64_t rows = 0;  // of all tables
  struct Table {
    std::string name;
    std::uint64_t rows = 0;
    std::uint64_t waiting = 0;  // ids that were pushed for, but not often enough for a row
    std::uint64_t evicted = 0;  // rows, so far
  };
  std::vector<Table> tables;
  std::uint64_t table_bytes = 0;    // memory of all tables
  std::uint64_t dense_bytes = 0;    // values and optimiser
  std::uint64_t waiting_bytes = 0;  // pushes that wait for other trainers
  std::uint64_t rss_bytes = 0;      // what the process has in RAM
  std::uint64_t log_bytes = 0;      // since the last snapshot
  std::uint64_t pushes = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t version = 0;
  std::uint64_t snapshots = 0;
  std::vector<std::uint64_t> staleness;  // pushes late by [0], [1], [2,3], [4,7] ... others
  struct Lease {
    std::uint64_t lease = 0;
    std::uint64_t batches = 0;  // applied
    bool finished = false;      // no further one will come
  };
  std::uint64_t finished_below =
      0;                        // leases that are finished; their number of batches is not kept
  std::vector<Lease> leases;    // the others; of a fixed number of trainers: by rank
  double recovery_seconds = 0;  // how long it took to come back with what was there
  bool last = false;            // it had stopped: nothing was applied after this
  std::optional<double> written_unix;  // when the file was written

  // What it keeps for trainers, as it counts itself.
  std::uint64_t MemoryBytes() const { return table_bytes + dense_bytes + waiting_bytes; }
};

// kBadData for anything but such an object; counts that are missing are 0.
Result<ServerRecord> ParseServerRecord(std::string_view text);

// kNotFound when that server has not written yet.
Result<ServerRecord> ReadServerRecord(const std::string& run, std::uint64_t index);

// Of all servers of a run, by index; files that cannot be read are left out.
std::vector<ServerRecord> ReadServerRecords(const std::string& run);

}  // namespace paceline::job
