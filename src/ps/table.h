#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "ps/row_optimizer.h"
#include "ps/stripe_groups.h"
#include "ps/touch_counter.h"

namespace paceline::ps {

// Which ids get a row. An id without one answers Pull() with its initial values, for ever the same,
// and what is pushed for it is dropped. A touch is a Push() or an Add(): pulls change nothing, so
// that the rows of a table are a function of what was pushed.
enum class AdmissionRule {
  kAll,           // at the first touch
  kAfterTouches,  // at touch number `touches`, which is applied
  kByChance,      // a share `probability` of all ids, chosen by hash: for ever the same
};

inline constexpr std::uint32_t kMaxAdmissionTouches = 1'000'000;

struct AdmissionOptions {
  AdmissionRule rule = AdmissionRule::kAll;
  std::uint32_t touches = 1;  // kAfterTouches: 1 .. kMaxAdmissionTouches
  double probability = 1.0;   // kByChance: 0 .. 1

  friend bool operator==(const AdmissionOptions&, const AdmissionOptions&) = default;
};

struct TableOptions {
  std::string name;         // part of the key of the initial values
  std::size_t dim = 0;      // floats of a row, 1 .. kMaxDim
  std::uint64_t seed = 0;   // of the run
  float init_range = 0.0F;  // rows start uniform in [-init_range, init_range); 0: zeros
  RowOptimizerOptions optimizer;
  AdmissionOptions admission;
  // Rows are evicted that were not touched for so many rounds: 4 bytes a row more. 0: never.
  std::uint32_t evict_after = 0;
  std::size_t stripes = 64;  // locks; a power of two up to 4096, each good for 16 million rows

  friend bool operator==(const TableOptions&, const TableOptions&) = default;
};

inline constexpr std::size_t kMaxDim = 4096;

// kInvalidArgument names the first option that makes no sense.
Status CheckTableOptions(const TableOptions& options);

// How much a server has of one table.
struct TableStatus {
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t waiting = 0;  // ids that were pushed for, but not often enough for a row
  std::uint64_t evicted = 0;  // rows, so far
};

// Whether rows are evicted with this round. Not with every one, since it looks at each row: a row
// goes between `evict_after` and nine eighths of so many rounds after its last touch.
bool EvictsWith(std::uint64_t round, std::uint32_t evict_after);

// A row as snapshots see it. `state` has StateFloats() of the table's optimiser.
struct TableRow {
  std::int64_t id = 0;
  std::uint32_t tick = 0;  // of the last touch; 0 where nothing is evicted
  std::span<const float> values;
  std::span<const float> state;
};

using RowVisitor = std::function<Status(const TableRow&)>;

// The rows of a table as they were at one moment, while the table goes on. At most one at a time,
// and not longer than the table.
class FrozenRows {
 public:
  virtual ~FrozenRows() = default;
  // Visits each row once, without a lock, in no particular order. Ends with the first error. Once:
  // what was visited is forgotten.
  virtual Status ForEachRow(const RowVisitor& visit) = 0;
  // Those that had no row yet.
  virtual std::span<const WaitingId> waiting() const = 0;
};

// The rows of one sparse table that one server keeps. Thread-safe: calls that touch the same row
// happen one after the other, each row's part of a call as a whole. Spans belong to the caller and
// are free after the call. Does not know other servers, messages or clocks.
//
// Wrong lengths and a full stripe are kInvalidArgument, a failing disk is kDisk; after either of
// the latter two a part of the ids has been handled.
class Table {
 public:
  virtual ~Table() = default;

  // For calls below that take ids of this table several times.
  virtual StripeGroups Group(std::span<const std::int64_t> ids) const = 0;

  // Copies the values of ids[i] to out[i * dim]. `out`, like all arrays below, is that of all ids
  // also when only those of some stripes are meant.
  virtual Status Pull(const StripePart& ids, std::span<float> out) = 0;
  Status Pull(std::span<const std::int64_t> ids, std::span<float> out) {
    StripeGroups groups = Group(ids);
    return Pull(groups, out);
  }

  // Applies gradients[i * dim] to the row of ids[i]. Each id comes once: the gradient of a step is
  // a sum, and two half updates are not one whole (Adam).
  Status Push(std::span<const std::int64_t> ids, std::span<const float> gradients,
              float learning_rate) {
    return PushKeeping(ids, gradients, learning_rate, {});
  }
  Status PushKeeping(std::span<const std::int64_t> ids, std::span<const float> gradients,
                     float learning_rate, std::span<float> before) {
    StripeGroups groups = Group(ids);
    return PushKeeping(groups, gradients, learning_rate, before);
  }
  // The same; before[i * dim] gets what Pull() would have given for ids[i], unless it is empty.
  virtual Status PushKeeping(const StripePart& ids, std::span<const float> gradients,
                             float learning_rate, std::span<float> before) = 0;

  // Adds deltas[i * dim] to the values of ids[i] and leaves the optimiser's state alone.
  virtual Status Add(std::span<const std::int64_t> ids, std::span<const float> deltas) = 0;

  // The tick that touches are recorded with from now on. Logical and the caller's: steps, hours.
  virtual void SetTick(std::uint32_t tick) = 0;

  // Removes every row whose last touch has a tick below `tick`, shown to `removed` before, and
  // forgets such ids that wait for a row; returns how many rows. A row that comes back starts anew.
  // kInvalidArgument without `evict_after`.
  virtual Result<std::uint64_t> EvictUntouchedSince(std::uint32_t tick,
                                                    const RowVisitor& removed) = 0;

  // Removes rows; returns how many there were.
  virtual Result<std::uint64_t> Erase(std::span<const std::int64_t> ids) = 0;

  // Visits each row once, without a lock, in no particular order, as it was at one moment of the
  // call. Rows that are made or removed meanwhile may be missed. Ends with the first error.
  virtual Status ForEachRow(const RowVisitor& visit) = 0;

  // The rows of now, for snapshots. Pushes and pulls go on; nobody pushes during this call.
  virtual Result<std::unique_ptr<FrozenRows>> Freeze() = 0;

  // Puts a row back as ForEachRow() gave it, in place of what is there. Admission does not apply.
  virtual Status Restore(const TableRow& row) = 0;
  virtual void RestoreWaiting(const WaitingId& waiting) = 0;

  virtual std::uint64_t Size() const = 0;       // rows
  virtual std::uint64_t Waiting() const = 0;    // ids that were touched and have none yet
  virtual std::size_t MemoryBytes() const = 0;  // of rows, index and counters
};

}  // namespace paceline::ps
