#include "net/shared_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/thread.h"

namespace paceline::net {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kReaderSeals = kSeals | F_SEAL_FUTURE_WRITE;

Status SystemError(const char* what) {
  return Status::Error(Code::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

Result<std::span<std::byte>> MapFd(int fd, std::size_t bytes,
                                   int protection = PROT_READ | PROT_WRITE) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return SystemError("mmap of shared memory");
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // where the system allows it for shared memory
  ::madvise(memory, bytes, MADV_DONTDUMP);
  return std::span(static_cast<std::byte*>(memory), bytes);
}

// Abstract: the first byte of the path is zero and the length counts.
socklen_t AbstractAddress(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool SameUser(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

union ControlBuffer {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
  cmsghdr align;
};

void SendFd(int socket, int fd) {
  char byte = 'm';
  iovec data{&byte, 1};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Result<UniqueFd> ReceiveFd(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return SystemError("recvmsg");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Status::Error(Code::kProtocol, "no descriptor came over the Unix socket");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return UniqueFd(fd);
}

}  // namespace

Result<SharedMemory> SharedMemory::CreateSealed(std::size_t bytes, int seals) {
  UniqueFd fd(::memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return SystemError("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return SystemError("ftruncate");
  // Mapped first: whoever maps it later may not write, if the seals say so.
  PACELINE_ASSIGN(const std::span<std::byte> mapped, MapFd(fd.get(), bytes));
  SharedMemory memory(std::move(fd), mapped);
  if (::fcntl(memory.fd(), F_ADD_SEALS, seals) != 0) return SystemError("sealing shared memory");
  return memory;
}

Result<SharedMemory> SharedMemory::Create(std::size_t bytes) { return CreateSealed(bytes, kSeals); }

Result<SharedMemory> SharedMemory::CreateForReaders(std::size_t bytes) {
  return CreateSealed(bytes, kReaderSeals);
}

Result<SharedMemory> SharedMemory::Map(UniqueFd fd, std::size_t bytes) {
  return MapSealed(std::move(fd), bytes, kSeals);
}

Result<SharedMemory> SharedMemory::MapForReading(UniqueFd fd, std::size_t bytes) {
  return MapSealed(std::move(fd), bytes, kReaderSeals);
}

Result<SharedMemory> SharedMemory::MapSealed(UniqueFd fd, std::size_t bytes, int seals) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size != static_cast<off_t>(bytes) ||
      ::fcntl(fd.get(), F_GET_SEALS) != seals) {
    return Status::Error(Code::kProtocol, "the shared memory is not what was announced");
  }
  const int protection = seals == kReaderSeals ? PROT_READ : PROT_READ | PROT_WRITE;
  PACELINE_ASSIGN(const std::span<std::byte> mapped, MapFd(fd.get(), bytes, protection));
  return SharedMemory(std::move(fd), mapped);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

FdServer::FdServer(UniqueFd listener, UniqueFd end, std::string name, int fd)
    : listener_(std::move(listener)),
      end_(std::move(end)),
      name_(std::move(name)),
      fd_(fd),
      thread_(StartThread("fd server", [this] { Serve(); })) {}

Result<std::unique_ptr<FdServer>> FdServer::Start(int fd) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd end(::eventfd(0, EFD_CLOEXEC));
  if (!listener.valid() || !end.valid()) return SystemError("socket");
  // The kernel chooses a free abstract name ("autobind").
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)) !=
          0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    return SystemError("bind of a Unix socket");
  }
  socklen_t length = sizeof(address);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return SystemError("getsockname");
  }
  std::string name(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
  return std::unique_ptr<FdServer>(
      new FdServer(std::move(listener), std::move(end), std::move(name), fd));
}

FdServer::~FdServer() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(end_.get(), &one, sizeof(one));
  thread_.join();
}

void FdServer::Serve() const {
  for (;;) {
    std::array<pollfd, 2> events{pollfd{listener_.get(), POLLIN, 0}, pollfd{end_.get(), POLLIN, 0}};
    if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return;
    if (events[1].revents != 0) return;
    if (events[0].revents == 0) continue;
    const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.valid() && SameUser(client.get())) SendFd(client.get(), fd_);
  }
}

Result<UniqueFd> FetchFd(const std::string& name, std::chrono::milliseconds timeout) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return SystemError("socket");
  sockaddr_un address{};
  const socklen_t length = AbstractAddress(name, address);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return SystemError("connecting to a Unix socket");
  }
  pollfd event{socket.get(), POLLIN, 0};
  if (::poll(&event, 1, static_cast<int>(timeout.count())) != 1) {
    return Status::Error(Code::kTimeout, "no descriptor came over the Unix socket");
  }
  return ReceiveFd(socket.get());
}

}  // namespace paceline::net
