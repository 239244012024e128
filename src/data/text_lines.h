#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace paceline::data {

// The lines of some text files, addressed by number. Immutable after opening, thread-safe; owns the
// open files. Reads with pread where the files are, and keeps the place of every 16th line only:
// 15 MB for 30 million lines.
class TextLines {
 public:
  static constexpr std::uint64_t kLongestLine = 1 << 20;  // bytes; longer is not text

  // Reads everything once and shows `visit` each line, which it may change; an error of its own
  // gets file, line and byte offset. A byte 0, a line without end and no line at all are bad data.
  using Visit = std::function<Status(std::string& line)>;
  static Result<TextLines> Open(const std::vector<std::filesystem::path>& files,
                                const Visit& visit);
  // One file, or all files of a folder: FilesAt().
  static Result<TextLines> Open(const std::filesystem::path& path, const Visit& visit);

  std::uint64_t size() const { return lines_; }
  Status Read(std::uint64_t number, std::string& line) const;
  // Shows `visit` lines [first, first + count) in order.
  using VisitAgain = std::function<Status(std::uint64_t number, std::string_view line)>;
  Status ForEach(std::uint64_t first, std::uint64_t count, const VisitAgain& visit) const;

  struct FileLines {
    std::string path;
    std::uint64_t first = 0;  // its first line
    std::uint64_t count = 0;
  };
  std::vector<FileLines> Files() const;

  // "file: line 12, byte offset 345", for messages.
  std::string Describe(std::uint64_t number) const;
  // Equal texts mean equal names and contents of files.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  struct File {
    std::string path;
    UniqueFd fd;
    std::uint64_t bytes = 0;
    std::uint64_t first_line = 0;
    std::uint64_t lines = 0;
    std::vector<std::uint64_t> places;  // of every kStride-th line
  };
  static constexpr std::uint64_t kStride = 16;

  Status AddFile(const std::filesystem::path& path, const Visit& visit);
  Status ScanFile(File& file, const Visit& visit);
  const File& FileOf(std::uint64_t number) const;
  static Status ReadBlock(const File& file, std::uint64_t block, std::string& bytes);

  std::vector<File> files_;
  std::uint64_t lines_ = 0;
  std::string fingerprint_;
};

// The files of a folder in order of name, hidden ones left out.
Result<std::vector<std::filesystem::path>> FilesOf(const std::filesystem::path& folder);
// A file itself, or those of a folder; a folder without any is bad data.
Result<std::vector<std::filesystem::path>> FilesAt(const std::filesystem::path& path);

}  // namespace paceline::data
