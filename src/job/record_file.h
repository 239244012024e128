#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "job/run_records.h"

namespace paceline::job {

using RecordSink = std::function<void(const Record&)>;

// What could not be read of a file of records.
struct RecordDamage {
  std::uint64_t torn = 0;             // lines cut off by a kill
  std::uint64_t first_torn_line = 0;  // from 1; 0: none
  std::uint64_t malformed = 0;        // whole lines without the fields that their type needs
  std::uint64_t first_malformed_line = 0;
  std::string first_malformed_text;
};

// How much of a file the reader wants.
enum class RecordDetail {
  kAll,
  kRecentSteps,  // of each row of `step` lines that arrive together only the last kRecentStepLines
};
constexpr std::size_t kRecentStepLines = 24;

// Cuts a stream of bytes into records, however the bytes arrive. A process that is killed leaves
// the beginning of a line; what the next process appends then stands on the same line. Such a line
// counts as torn, and the whole record at its end is still delivered. Thread-compatible.
class RecordStream {
 public:
  explicit RecordStream(RecordDetail detail = RecordDetail::kAll) : detail_(detail) {}

  // The records whose lines are complete now; those of recent steps only with Deliver.
  void Feed(std::string_view bytes, const RecordSink& sink);
  // The recent steps that were fed since the last record of another type. kRecentSteps only.
  void Deliver(const RecordSink& sink);
  // The end of the file: what is left is a whole record without its newline, or torn.
  void Finish(const RecordSink& sink);

  const RecordDamage& damage() const { return damage_; }
  std::uint64_t lines() const { return line_; }

 private:
  struct DeferredLine {
    std::string text;
    std::uint64_t line = 0;
    std::uint64_t offset = 0;
  };

  void TakeLine(std::string_view line, const RecordSink& sink);
  bool Defer(std::string_view line);
  bool TryRecord(std::string_view text, std::uint64_t line, std::uint64_t offset,
                 const RecordSink& sink);

  std::string pending_;           // the beginning of a line
  bool oversized_ = false;        // that line is beyond all reason: its rest is dropped
  std::uint64_t line_ = 0;        // lines seen
  std::uint64_t line_begin_ = 0;  // offset of the line being read
  RecordDamage damage_;
  RecordDetail detail_;
  std::deque<DeferredLine> deferred_;  // whole step lines, not parsed yet
};

// Follows one file that others append to: each Poll reads only what is new. A file that became
// shorter or was replaced is read again from its start. Thread-compatible.
class RecordFile {
 public:
  explicit RecordFile(std::string path, RecordDetail detail = RecordDetail::kAll)
      : path_(std::move(path)), detail_(detail), stream_(detail) {}

  enum class Change { kNone, kGrown, kReplaced };

  // Delivers new records; `restart` is called before the records of a file that was replaced.
  // A file that is not there yet is an empty one. kDisk when it cannot be read.
  Result<Change> Poll(const RecordSink& sink, const std::function<void()>& restart);
  // Reads to the end, once; a last line without newline counts. kNotFound without the file.
  Status ReadAll(const RecordSink& sink);

  const std::string& path() const { return path_; }
  const RecordDamage& damage() const { return stream_.damage(); }
  std::uint64_t lines() const { return stream_.lines(); }

 private:
  Status Open(bool* replaced);
  Status ReadNew(const RecordSink& sink, bool* grown);

  std::string path_;
  RecordDetail detail_;
  UniqueFd file_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::uint64_t offset_ = 0;
  RecordStream stream_;
};

// `bytes` of a file from `offset` on. kDisk when they cannot be read.
Result<std::string> ReadPiece(const std::string& path, std::uint64_t offset, std::uint64_t bytes);

}  // namespace paceline::job
