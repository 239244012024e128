#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace paceline::bench {

// Lines over a Unix socket between the driver of `paceline perf` and its ranks. A socket in the
// file system instead of stdin, because mpirun gives stdin to one rank only, and because it crosses
// network namespaces. Thread-compatible.
class PerfChannel {
 public:
  explicit PerfChannel(UniqueFd fd) : fd_(std::move(fd)) {}
  static Result<PerfChannel> Connect(const std::filesystem::path& path);

  int fd() const { return fd_.get(); }
  // kPeerLost when the other side has gone.
  Status WriteLine(const std::string& line);
  // Without its newline. kPeerLost at the end, kTimeout at the deadline (none: waits for ever).
  Result<std::string> ReadLine(std::optional<std::chrono::milliseconds> timeout);

 private:
  UniqueFd fd_;
  std::string pending_;  // read, not yet returned
};

// Where ranks connect to. Thread-compatible.
class PerfListener {
 public:
  // Readable by this user alone. `path` must not exist.
  static Result<PerfListener> Open(const std::filesystem::path& path);
  // kTimeout when nobody came.
  Result<PerfChannel> Accept(std::chrono::milliseconds timeout);

 private:
  explicit PerfListener(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace paceline::bench
