#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "disk/file_system.h"
#include "ps/log_record.h"

namespace paceline::ps {

struct PushLogOptions {
  disk::FileSystem* file_system = nullptr;  // outlives the log
  std::string folder;                       // exists; segments are wal-NUMBER.log
  // Records of so long are made durable together; 0: as soon as the one before is.
  std::chrono::milliseconds group{20};
  std::size_t segment_bytes = std::size_t{64} << 20;  // a longer segment is followed by the next
  std::size_t pending_bytes = std::size_t{64} << 20;  // more in memory hold up who appends
};

// What a server found when it came back.
struct LogRecovery {
  std::uint64_t segments = 0;
  std::uint64_t records = 0;
  std::uint64_t torn_bytes = 0;  // of records that were never complete; kept in a file *.broken
};

// Records in segment `first` of a folder and those behind it. Changes nothing; a record that was
// being written does not count.
Result<std::uint64_t> CountRecords(disk::FileSystem& fs, const std::string& folder,
                                   std::uint64_t first);

// A server's write-ahead log: changes that were told durable are there after any crash. Records are
// numbered from 1 in the order of Append. After an error of the disk the log is lost for good, and
// everything returns that error. Thread-safe; one thread of its own. Does not know what records
// mean and does not apply them.
class PushLog {
 public:
  using Durable = std::function<void(const Status&)>;

  // Gives every record of segment `first` and those behind it to `replay`, in order; older segments
  // stay as they are. kBadCheckpoint: one is missing, or damaged so that no crash explains it.
  static Result<std::unique_ptr<PushLog>> Open(const PushLogOptions& options, std::uint64_t first,
                                               const RecordVisitor& replay, LogRecovery& recovery);
  ~PushLog();  // what was appended is made durable
  PushLog(const PushLog&) = delete;
  PushLog& operator=(const PushLog&) = delete;

  // Returns the record's number. Waits while too much is pending. Copies the payload unless it is
  // long and `owner` keeps it as it is; the owner is let go when it is written.
  Result<std::uint64_t> Append(const LogRecord& record,
                               std::shared_ptr<const void> owner = nullptr);
  // Calls `done` once, when record `number` and all before it are durable (at once, or on the log's
  // thread) or when they never will be. One thread's calls in ascending order are answered in
  // order.
  void WhenDurable(std::uint64_t number, Durable done);
  Status AwaitDurable(std::uint64_t number);

  // What is appended from now on lies in a segment whose number is returned: a snapshot of all that
  // was appended before needs only this one and later ones. One caller at a time.
  Result<std::uint64_t> StartSegment();
  // Removes the segments before `segment`.
  Status DropBefore(std::uint64_t segment);

 private:
  // Whole records, then perhaps the head of one whose payload lies elsewhere.
  struct Part {
    std::vector<std::byte> bytes;
    std::span<const std::byte> payload;
    std::shared_ptr<const void> owner;  // of the payload; null: there is none
  };

  // Everything that was pending.
  struct Taken {
    std::vector<Part> parts;
    std::uint64_t records = 0;  // up to this one
    bool rotate = false;
  };
  using Deadline = std::chrono::steady_clock::time_point;

  explicit PushLog(const PushLogOptions& options) : options_(options) {}

  Status CreateSegment(std::uint64_t segment);
  void Run(const std::stop_token& stop);
  Taken Take(const std::stop_token& stop, Deadline until);
  Status Write(std::span<const Part> parts);
  Status MakeDurable(bool next_segment);
  Status WritePart(const Part& part);
  void Finish(std::uint64_t written, const Status& status);
  bool HasWork() const PACELINE_REQUIRES(mutex_) { return !pending_.empty() || rotate_; }

  const PushLogOptions options_;
  // Of the log's thread, once it runs.
  std::unique_ptr<disk::WritableFile> file_;
  std::size_t file_bytes_ = 0;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Part> pending_ PACELINE_GUARDED_BY(mutex_);
  std::size_t pending_bytes_ PACELINE_GUARDED_BY(mutex_) = 0;
  std::uint64_t appended_ PACELINE_GUARDED_BY(mutex_) = 0;
  std::uint64_t durable_ PACELINE_GUARDED_BY(mutex_) = 0;
  std::uint64_t told_ PACELINE_GUARDED_BY(mutex_) = 0;  // whoever waited for these was told
  std::uint64_t segment_ PACELINE_GUARDED_BY(mutex_) = 0;
  bool rotate_ PACELINE_GUARDED_BY(mutex_) = false;  // after what is pending; nobody appends
  std::uint64_t rotated_to_ PACELINE_GUARDED_BY(mutex_) = 0;
  Status failure_ PACELINE_GUARDED_BY(mutex_);
  std::vector<std::pair<std::uint64_t, Durable>> waiting_ PACELINE_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: starts when everything else is ready
};

}  // namespace paceline::ps
