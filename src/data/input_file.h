#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace paceline::data {

// A file of a data set, open for reading; immutable and thread-safe after opening. Reads with
// pread, not from a mapping: a file that shrinks under a mapping kills the process with SIGBUS,
// here it is an error that names the file and the offset.
class InputFile {
 public:
  // kBadData when it cannot be opened, is empty or is no regular file.
  static Result<InputFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }  // when it was opened; more than 0

  // Fills all of `bytes`; a file that ends earlier is bad data.
  Status ReadAt(std::uint64_t offset, std::span<std::byte> bytes) const;

  // "name:size:hash", the hash over both ends of the file. Tells different files apart; not meant
  // against an attacker.
  Result<std::string> Fingerprint() const;

 private:
  InputFile() = default;

  std::string path_;
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
};

}  // namespace paceline::data
