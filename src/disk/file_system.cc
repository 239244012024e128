#include "disk/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "disk/posix_writable_file.h"

namespace paceline::disk {

namespace {

Status ReadError(const char* operation, const std::string& path, int error) {
  const std::string text = DiskError(operation, path, error).message();
  if (error == ENOENT || error == ENOTDIR) return Status::Error(Code::kNotFound, text);
  if (error == ELOOP) return Status::Error(Code::kBadData, path + " is a symbolic link");
  return Status::Error(Code::kDisk, text);
}

// O_NONBLOCK: a FIFO in place of a file must not stop us.
Result<UniqueFd> OpenRegular(const std::string& path, int access, std::uint64_t* bytes) {
  UniqueFd fd(::open(path.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return ReadError("open", path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return ReadError("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Status::Error(Code::kBadData, path + " is not a regular file");
  }
  *bytes = static_cast<std::uint64_t>(info.st_size);
  return fd;
}

}  // namespace

Status DiskError(const char* operation, const std::string& path, int error) {
  return Status::Error(Code::kDisk, fmt::format("{} {}: {}", operation, path,
                                                std::generic_category().message(error)));
}

Result<std::unique_ptr<WritableFile>> PosixFileSystem::Create(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return DiskError("create", path, errno);
  return std::unique_ptr<WritableFile>(
      std::make_unique<PosixWritableFile>(std::move(fd), path, 0, ReadBack::kSoon));
}

Result<std::unique_ptr<WritableFile>> PosixFileSystem::OpenForAppend(const std::string& path,
                                                                     ReadBack reads) {
  std::uint64_t bytes = 0;
  PACELINE_ASSIGN(UniqueFd fd, OpenRegular(path, O_WRONLY | O_APPEND, &bytes));
  return std::unique_ptr<WritableFile>(
      std::make_unique<PosixWritableFile>(std::move(fd), path, bytes, reads));
}

Status PosixFileSystem::SyncDir(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return DiskError("open", path, errno);
  return ::fsync(fd.get()) == 0 ? Status() : DiskError("fsync", path, errno);
}

Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return {};
  return DiskError("rename", fmt::format("{} to {}", from, to), errno);
}

Status PosixFileSystem::MakeDir(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  const int error = errno;
  struct stat info {};
  if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return {};
  return DiskError("mkdir", path, error);
}

Status PosixFileSystem::RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);  // removes links, does not follow them
  return error ? DiskError("remove", path, error.value()) : Status();
}

Result<bool> PosixFileSystem::Exists(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return DiskError("stat", path, errno);
}

Result<std::vector<DirEntry>> PosixFileSystem::List(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), &::closedir);
  if (dir == nullptr) return ReadError("list", path, errno);
  std::vector<DirEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr && errno != 0) return ReadError("list", path, errno);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info {};
    const bool known =
        ::fstatat(::dirfd(dir.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    entries.push_back({name, known && S_ISDIR(info.st_mode)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
  return entries;
}

Result<std::uint64_t> PosixFileSystem::Size(const std::string& path) {
  std::uint64_t bytes = 0;
  PACELINE_ASSIGN(const UniqueFd fd, OpenRegular(path, O_RDONLY, &bytes));
  return bytes;
}

Result<std::size_t> PosixFileSystem::ReadAt(const std::string& path, std::uint64_t offset,
                                            std::span<std::byte> into) {
  std::uint64_t bytes = 0;
  PACELINE_ASSIGN(const UniqueFd fd, OpenRegular(path, O_RDONLY, &bytes));
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t n =
        ::pread(fd.get(), into.data() + done, std::min(into.size() - done, kMaxTransfer),
                static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ReadError("read", path, errno);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

Result<std::vector<std::byte>> ReadWhole(FileSystem& fs, const std::string& path,
                                         std::uint64_t max_bytes) {
  PACELINE_ASSIGN(const std::uint64_t size, fs.Size(path));
  if (size > max_bytes) {
    return Status::Error(
        Code::kBadData, fmt::format("{} has {} bytes, at most {} expected", path, size, max_bytes));
  }
  std::vector<std::byte> content(size);
  PACELINE_ASSIGN(const std::size_t got, fs.ReadAt(path, 0, content));
  content.resize(got);
  return content;
}

}  // namespace paceline::disk
