#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "disk/file_system.h"

namespace paceline::disk {

// Some kernels refuse a larger read or write; none needs one.
inline constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

// A file of the real file system. Of a file that nobody reads soon, long appends go past the page
// cache where the file system can do that, and what is synced leaves it: a file that grows
// otherwise takes ever new pages, and pages that a virtual machine has never used cost its host
// several times what writing them does.
class PosixWritableFile final : public WritableFile {
 public:
  // `fd` appends at the end of the file, which is `bytes` long.
  PosixWritableFile(UniqueFd fd, const std::string& path, std::uint64_t bytes, ReadBack reads);

  Status Append(std::span<const std::byte> data) override;
  Status Sync() override;
  Status Close() override;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  Status AppendThroughCache(std::span<const std::byte> data);
  Status AppendPastCache(std::span<const std::byte> data);
  std::size_t WritePastCache(std::span<const std::byte> piece);

  UniqueFd fd_;
  UniqueFd past_cache_;  // the same file; not valid: everything goes through the cache
  std::unique_ptr<std::byte, Free> aligned_;
  std::string path_;
  std::uint64_t end_;
  ReadBack reads_;
};

}  // namespace paceline::disk
