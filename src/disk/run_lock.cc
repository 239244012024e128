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
  return Lock(dir + "/LOCK", dir,
              fmt::format("pid {} host {} start {}", ::getpid(), HostName(), clock.UnixSeconds()));
}

Result<RunLock> RunLock::AcquireFile(const std::string& path, const std::string& holder) {
  return Lock(path + ".lock", path, holder);
}

Result<RunLock> RunLock::Lock(const std::string& lock_path, const std::string& what,
                              const std::string& holder) {
  UniqueFd fd(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return DiskError("open", lock_path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return DiskError("lock", lock_path, errno);
    return Status::Error(Code::kAlreadyRunning,
                         fmt::format("{} is in use by {}", what, ReadHolder(fd.get())));
  }
  if (::ftruncate(fd.get(), 0) != 0) return DiskError("truncate", lock_path, errno);
  // The text is for people; a full disk must not keep the run from starting.
  const std::string line = holder + "\n";
  [[maybe_unused]] const ssize_t n = ::pwrite(fd.get(), line.data(), line.size(), 0);
  return RunLock(std::move(fd));
}

}  // namespace paceline::disk
