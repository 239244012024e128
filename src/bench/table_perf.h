#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/stats.h"
#include "base/status.h"
#include "bench/results.h"
#include "bench/single_node.h"
#include "job/machine.h"

namespace paceline::bench {

struct TablePerfConfig {
  std::vector<std::int64_t> rows{1'000'000, 10'000'000};  // rising; measured when it has so many
  int dim = 10;
  std::string optimizer = "sgd";
  int ids = 1000;    // of a push
  int pushes = 301;  // measured at each size, of each kind
  std::string table_store = "memory";
  std::string folder;  // snapshots go below; the system's temporary folder if empty
};
// kInvalidArgument names what cannot work.
Status Validate(const TablePerfConfig& config);

// What a server with so many rows takes.
struct TablePoint {
  std::int64_t rows = 0;
  double make_seconds = 0;          // the rows since the point before
  std::int64_t payload_bytes = 0;   // ids, values and what the optimiser remembers
  std::int64_t value_bytes = 0;     // of that the values
  std::int64_t table_bytes = 0;     // as the server counts
  std::int64_t resident_bytes = 0;  // what the process has grown by
  Summary push_anywhere;            // seconds: ids from the whole table
  Summary push_same;                // ids from as many rows as the first point has
  double snapshot_seconds = 0;
  std::int64_t snapshot_bytes = 0;
  double load_seconds = 0;
};

// `--json` prints: version, name "perf table", start_unix, args, commit, dirty, machine{...},
// config{...}, warnings[text], points[{as TablePoint, summaries as {median, mad}}].
struct TablePerfResults {
  Provenance provenance;
  job::Machine machine;
  TablePerfConfig config;
  std::vector<TablePoint> points;
};
std::string ToJson(const TablePerfResults& results, JsonStyle style);
std::string TablePerfTable(const TablePerfResults& results);

// Grows the table of a server without a network. At each size: pushes, a snapshot, and a server
// that begins with it, which goes on. Fills `points`.
Status RunTablePerf(const Progress& progress, const std::stop_token& stop,
                    TablePerfResults& results);

}  // namespace paceline::bench
