#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace paceline::data {

// The lines of all files of a folder, addressed by number; files are taken by name, hidden ones
// left out. Immutable after opening, thread-safe; owns the open files. Reads with pread where the
// files are, and keeps the place of every 16th line only: 15 MB for 30 million lines.
class TextLines {
 public:
  static constexpr std::uint64_t kLongestLine = 1 << 20;  // bytes; longer is not text

  // Reads everything once and shows `visit` each line, which it may change; an error of its own
  // gets file and byte offset. A byte 0, a line without end and an empty folder are bad data.
  using Visit = std::function<Status(std::string& line)>;
  static Result<TextLines> Open(const std::filesystem::path& folder, const Visit& visit);

  std::uint64_t size() const { return lines_; }
  Status Read(std::uint64_t number, std::string& line) const;

  // "file: line 12", for messages.
  std::string Describe(std::uint64_t number) const;
  // Equal texts mean equal names and contents of files.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  struct File {
    std::string path;
    UniqueFd fd;
    std::uint64_t bytes = 0;
    std::uint64_t first_line = 0;
    std::vector<std::uint64_t> places;  // of every kStride-th line
  };
  static constexpr std::uint64_t kStride = 16;

  Status AddFile(const std::filesystem::path& path, const Visit& visit);
  Status ScanFile(File& file, const Visit& visit);
  const File& FileOf(std::uint64_t number) const;

  std::vector<File> files_;
  std::uint64_t lines_ = 0;
  std::string fingerprint_;
};

}  // namespace paceline::data
