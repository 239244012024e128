#pragma once

#include <filesystem>
#include <utility>

#include "base/status.h"

namespace paceline::bench {

// A new folder for what processes meet at, below the system's temporary folder (or `below`) because
// sockets have short names. Removed with this object. Thread-compatible.
class PrivateFolder {
 public:
  static Result<PrivateFolder> Make(const std::filesystem::path& below = {});
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit PrivateFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace paceline::bench
