#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"

namespace paceline::fuzz {

// One file, whose bytes are the input. Reading needs no more.
class OneFile final : public disk::FileSystem {
 public:
  explicit OneFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<std::uint64_t> Size(const std::string&) override { return bytes_.size(); }
  Result<std::size_t> ReadAt(const std::string&, std::uint64_t offset,
                             std::span<std::byte> into) override {
    const auto from = bytes_.subspan(static_cast<std::size_t>(offset));
    const std::size_t count = std::min(from.size(), into.size());
    std::copy_n(from.begin(), count, into.begin());
    return count;
  }

  Result<std::unique_ptr<disk::WritableFile>> Create(const std::string&) override {
    return ReadOnly();
  }
  Result<std::unique_ptr<disk::WritableFile>> OpenForAppend(const std::string&,
                                                            disk::ReadBack) override {
    return ReadOnly();
  }
  Status SyncDir(const std::string&) override { return ReadOnly(); }
  Status Rename(const std::string&, const std::string&) override { return ReadOnly(); }
  Status MakeDir(const std::string&) override { return ReadOnly(); }
  Status RemoveAll(const std::string&) override { return ReadOnly(); }
  Result<bool> Exists(const std::string&) override { return true; }
  Result<std::vector<disk::DirEntry>> List(const std::string&) override { return ReadOnly(); }

 private:
  static Status ReadOnly() { return Status::Error(Code::kDisk, "read only"); }

  std::span<const std::byte> bytes_;
};

}  // namespace paceline::fuzz
