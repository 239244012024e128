#include "bench/perf_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/clock.h"

namespace paceline::bench {

namespace {

constexpr std::size_t kMaxLine = 1 << 16;

Status SystemError(const std::string& what) {
  return Status::Error(Code::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

Result<sockaddr_un> AddressOf(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof(address.sun_path)) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} is too long for the name of a socket", text));
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

// True when `fd` is ready before the deadline (none: waits for ever).
bool WaitReadable(int fd, std::optional<Instant> deadline) {
  for (;;) {
    int left = -1;
    if (deadline) {
      left = static_cast<int>(std::max<std::int64_t>(
          0,
          std::chrono::ceil<std::chrono::milliseconds>(*deadline - SystemClock().Now()).count()));
    }
    pollfd wait{fd, POLLIN, 0};
    const int ready = ::poll(&wait, 1, left);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

Result<PerfChannel> PerfChannel::Connect(const std::filesystem::path& path) {
  PACELINE_ASSIGN(const sockaddr_un address, AddressOf(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError("socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(fmt::format("connecting to {}", path.string()));
  }
  return PerfChannel(std::move(fd));
}

Status PerfChannel::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::send(fd_.get(), text.data() + written, text.size() - written, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::Error(Code::kPeerLost, "the other side has gone");
    written += static_cast<std::size_t>(n);
  }
  return {};
}

Result<std::string> PerfChannel::ReadLine(std::optional<std::chrono::milliseconds> timeout) {
  std::optional<Instant> deadline;
  if (timeout) deadline = SystemClock().Now() + *timeout;
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (pending_.size() > kMaxLine) return Status::Error(Code::kProtocol, "a line without end");
    if (!WaitReadable(fd_.get(), deadline)) {
      return Status::Error(Code::kTimeout, "no line in time");
    }
    char buffer[4096];
    const ssize_t n = ::read(fd_.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Status::Error(Code::kPeerLost, "the other side has gone");
    pending_.append(buffer, static_cast<std::size_t>(n));
  }
}

Result<PerfListener> PerfListener::Open(const std::filesystem::path& path) {
  constexpr int kBacklog = 64;
  PACELINE_ASSIGN(const sockaddr_un address, AddressOf(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError("socket");
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return SystemError(fmt::format("listening at {}", path.string()));
  }
  return PerfListener(std::move(fd));
}

Result<PerfChannel> PerfListener::Accept(std::chrono::milliseconds timeout) {
  if (!WaitReadable(fd_.get(), SystemClock().Now() + timeout)) {
    return Status::Error(Code::kTimeout, "nobody connected in time");
  }
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return SystemError("accept");
  return PerfChannel(std::move(fd));
}

}  // namespace paceline::bench
