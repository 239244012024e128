#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "ps/log_record.h"
#include "ps/push_log.h"

// What a server's log and snapshots say, in records of log_record.h; docs/formats.md describes it.
namespace paceline::ps {

enum class ChangeType : std::uint8_t {
  kJob = 1,         // which server of how many, and the job
  kInitialise = 2,  // the first dense values
  kPush = 4,        // as EncodePush wrote it
  // Of snapshots only.
  kProgress = 16,
  kDense = 17,    // a part of a plane
  kRows = 18,     // of one table
  kWaiting = 19,  // a push whose round is not complete
  kEnd = 20,
  kCounts = 21,  // of one table: rows that were evicted, and ids that have no row yet
};

using RecordSink = std::function<Status(const LogRecord&)>;
// `payload` begins on an address divisible by 8.
using ChangeVisitor = std::function<Status(ChangeType type, std::span<const std::byte> payload)>;

// Gives `change` number `number` to `sink` in records of at most `part_bytes`. A record's step is
// the number; its generation says which part of how many it is.
Status CutChange(ChangeType type, std::uint64_t number, std::span<const std::byte> payload,
                 std::size_t part_bytes, const RecordSink& sink);

// Puts changes together again. One whose end is missing was never acknowledged and is left out.
// Thread-compatible.
class ChangeAssembler {
 public:
  explicit ChangeAssembler(ChangeVisitor visit) : visit_(std::move(visit)) {}

  // kBadCheckpoint for a part without those before it.
  Status Take(const LogRecord& record);

  std::uint64_t last_number() const { return number_; }
  std::size_t unfinished_bytes() const { return next_part_ == 0 ? 0 : payload_.size(); }

 private:
  const ChangeVisitor visit_;
  std::uint64_t number_ = 0;
  std::uint32_t next_part_ = 0;  // 0: nothing is begun
  std::uint32_t parts_ = 0;
  std::uint8_t type_ = 0;
  std::vector<std::byte> payload_;
};

// A server's log in changes. One thread appends at a time; everything else is as PushLog.
class ChangeLog {
 public:
  // As PushLog::Open; whole changes go to `replay`.
  static Result<std::unique_ptr<ChangeLog>> Open(const PushLogOptions& options, std::uint64_t first,
                                                 const ChangeVisitor& replay, LogRecovery& recovery,
                                                 std::size_t part_bytes = kMaxRecordPayload);

  // Returns the number of its last record. `owner`, if there is one, keeps the payload as it is.
  Result<std::uint64_t> Append(ChangeType type, std::span<const std::byte> payload,
                               const std::shared_ptr<const void>& owner = nullptr);
  std::uint64_t last_record() const { return last_record_; }

  PushLog& records() { return *log_; }

 private:
  explicit ChangeLog(std::size_t part_bytes) : part_bytes_(part_bytes) {}

  const std::size_t part_bytes_;
  std::unique_ptr<PushLog> log_;
  std::uint64_t last_change_ = 0;
  std::uint64_t last_record_ = 0;
};

}  // namespace paceline::ps
