#include "data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace paceline::data {

namespace {

constexpr std::uint64_t kFingerprintBytes = 64 * 1024;  // at either end of a file

// FNV-1a, 64 bits.
std::uint64_t Hash(std::span<const std::byte> bytes, std::uint64_t hash) {
  for (std::byte b : bytes) {
    hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001B3ULL;
  }
  return hash;
}

}  // namespace

Result<InputFile> InputFile::Open(const std::string& path) {
  InputFile file;
  file.path_ = path;
  // Not blocking: opening a FIFO would otherwise wait for a writer for ever.
  file.fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.fd_.valid() || ::fstat(file.fd_.get(), &info) != 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: cannot be opened: {}", path,
                                                     std::generic_category().message(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::Error(Code::kBadData, fmt::format("{}: is not a regular file", path));
  }
  if (info.st_size == 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: is empty", path));
  }
  file.bytes_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status InputFile::ReadAt(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Status::Error(Code::kBadData,
                           fmt::format("{}: reading at byte offset {}: {}", path_, offset,
                                       std::generic_category().message(errno)));
    }
    if (got == 0) {
      return Status::Error(
          Code::kBadData,
          fmt::format("{}: the file ends at byte offset {}; it has shrunk since it was opened",
                      path_, offset));
    }
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::string> InputFile::Fingerprint() const {
  std::vector<std::byte> buffer(std::min(bytes_, kFingerprintBytes));
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (std::uint64_t offset : {std::uint64_t{0}, bytes_ - buffer.size()}) {
    PACELINE_TRY(ReadAt(offset, buffer));
    hash = Hash(buffer, hash);
  }
  return fmt::format("{}:{}:{:016x}", std::filesystem::path(path_).filename().string(), bytes_,
                     hash);
}

}  // namespace paceline::data
