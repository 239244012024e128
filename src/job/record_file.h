#pragma once

#include <sys/types.h>

#include <cstdint>
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

// Cuts a stream of bytes into records, however the bytes arrive. A process that is killed leaves
// the beginning of a line; what the next process appends then stands on the same line. Such a line
// counts as torn, and the whole record at its end is still delivered. Thread-compatible.
class RecordStream {
 public:
  // The records whose lines are complete now.
  void Feed(std::string_view bytes, const RecordSink& sink);
  // The end of the file: what is left is a whole record without its newline, or torn.
  void Finish(const RecordSink& sink);

  const RecordDamage& damage() const { return damage_; }
  std::uint64_t lines() const { return line_; }

 private:
  void TakeLine(std::string_view line, const RecordSink& sink);
  bool TryRecord(std::string_view text, std::uint64_t offset, const RecordSink& sink);

  std::string pending_;           // the beginning of a line
  bool oversized_ = false;        // that line is beyond all reason: its rest is dropped
  std::uint64_t line_ = 0;        // lines seen
  std::uint64_t line_begin_ = 0;  // offset of the line being read
  RecordDamage damage_;
};

// Follows one file that others append to: each Poll reads only what is new. A file that became
// shorter or was replaced is read again from its start. Thread-compatible.
class RecordFile {
 public:
  explicit RecordFile(std::string path) : path_(std::move(path)) {}

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
  UniqueFd file_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::uint64_t offset_ = 0;
  RecordStream stream_;
};

// `bytes` of a file from `offset` on. kDisk when they cannot be read.
Result<std::string> ReadPiece(const std::string& path, std::uint64_t offset, std::uint64_t bytes);

}  // namespace paceline::job
