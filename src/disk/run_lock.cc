#include "disk/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "disk/file_system.h"

namespace paceline::disk {

namespace {

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// "pid 12 host a start 1700000000", as the holder wrote it; it may be in the middle of that.
std::string ReadHolder(int fd) {
  std::array<char, 512> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  if (n <= 0) return "a process that is just starting";
  std::string holder(text.data(), static_cast<std::size_t>(n));
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  return holder;
}

}  // namespace

Result<RunLock> RunLock::Acquire(const std::string& dir, const Clock& clock) {
  const std::string path = dir + "/LOCK";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return DiskError("open", path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return DiskError("lock", path, errno);
    return Status::Error(Code::kAlreadyRunning,
                         fmt::format("{} is in use by {}", dir, ReadHolder(fd.get())));
  }
  const std::string holder =
      fmt::format("pid {} host {} start {}\n", ::getpid(), HostName(), clock.UnixSeconds());
  if (::ftruncate(fd.get(), 0) != 0) return DiskError("truncate", path, errno);
  // The text is for people; a full disk must not keep the run from starting.
  [[maybe_unused]] const ssize_t n = ::pwrite(fd.get(), holder.data(), holder.size(), 0);
  return RunLock(std::move(fd));
}

}  // namespace paceline::disk
