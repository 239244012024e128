#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "ps/table.h"

namespace paceline::ps {

struct RocksTableOptions {
  std::string folder;                                     // made if absent; its parent exists
  std::size_t cache_bytes = std::size_t{256} << 20;       // rows in memory, with their index
  std::size_t block_cache_bytes = std::size_t{64} << 20;  // RocksDB's own: blocks, filters, index
};

// A table larger than memory: rows in use are kept in memory, the others in RocksDB. A changed row
// reaches the disk when its place is needed (CLOCK). The folder is scratch: opening the table
// removes what an earlier one left there, and a crash loses everything; durable are snapshots that
// ForEachRow() feeds.
Result<std::unique_ptr<Table>> OpenRocksTable(const TableOptions& options,
                                              const RocksTableOptions& rocks);

}  // namespace paceline::ps
