#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::disk {

// A file that grows at its end. After the first error the file is lost: the kernel
// may have dropped the pages that a failed fsync was for, so nothing is ever retried on it.
// Thread-compatible. The destructor closes without reporting; Close() reports.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(std::span<const std::byte> data) = 0;
  virtual Status Sync() = 0;
  virtual Status Close() = 0;
};

// Whether what is appended to a file is read soon. A hint: if not, it need not stay in memory.
enum class ReadBack { kSoon, kNotSoon };

struct DirEntry {
  std::string name;
  bool is_directory = false;  // a symbolic link is not one, whatever it points at
};

// The operations that durable writing needs, and no more; injected, so that tests decide which of
// them fails. Every failure is Code::kDisk with path and reason, except that reading or appending
// to what is not there is kNotFound and to what is not a regular file (a symbolic link included)
// is kBadData. Thread-safe. Does not buffer and does not retry.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Fails when the path exists. Only the owner may read or write the file.
  virtual Result<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Goes on at the end of a regular file that is there.
  virtual Result<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              ReadBack reads) = 0;
  // Makes the names in a directory durable.
  virtual Status SyncDir(const std::string& path) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // One level; success when the directory is already there.
  virtual Status MakeDir(const std::string& path) = 0;
  // A file, or a directory with everything in it; success when there is nothing.
  virtual Status RemoveAll(const std::string& path) = 0;

  virtual Result<bool> Exists(const std::string& path) = 0;
  virtual Result<std::vector<DirEntry>> List(const std::string& path) = 0;  // sorted by name
  virtual Result<std::uint64_t> Size(const std::string& path) = 0;
  // Fills `into` from `offset` on; fewer bytes only at the end of the file.
  virtual Result<std::size_t> ReadAt(const std::string& path, std::uint64_t offset,
                                     std::span<std::byte> into) = 0;
};

// The real one. Does not follow a symbolic link in the last part of a path that it creates,
// appends to or reads. Immutable.
class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                      ReadBack reads) override;
  Status SyncDir(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status MakeDir(const std::string& path) override;
  Status RemoveAll(const std::string& path) override;
  Result<bool> Exists(const std::string& path) override;
  Result<std::vector<DirEntry>> List(const std::string& path) override;
  Result<std::uint64_t> Size(const std::string& path) override;
  Result<std::size_t> ReadAt(const std::string& path, std::uint64_t offset,
                             std::span<std::byte> into) override;
};

// The whole file; kBadData when it is larger than `max_bytes`.
Result<std::vector<std::byte>> ReadWhole(FileSystem& fs, const std::string& path,
                                         std::uint64_t max_bytes);

// "fsync /run/x: No space left on device", as kDisk.
Status DiskError(const char* operation, const std::string& path, int error);

}  // namespace paceline::disk
