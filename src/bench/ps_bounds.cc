#include "bench/ps_bounds.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <semaphore>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/unique_fd.h"
#include "kernel/optimizer.h"
#include "net/shared_memory.h"

namespace paceline::bench {

namespace {

Status SystemError(const char* what) {
  return Status::Error(Code::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

struct TcpPair {
  UniqueFd writer, reader;
};

Result<TcpPair> ConnectLoopback() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd writer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), any, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), any, &length) != 0 ||
      ::connect(writer.get(), any, length) != 0) {
    return SystemError("a loopback connection");
  }
  UniqueFd reader(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!reader.valid()) return SystemError("accept");
  // As our own connections inside one machine, or those would be ahead of their bound.
  constexpr std::string_view kUnpaced = "reno";
  ::setsockopt(writer.get(), IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(),
               static_cast<socklen_t>(kUnpaced.size()));
  return TcpPair{std::move(writer), std::move(reader)};
}

bool WriteAll(int fd, const std::vector<std::byte>& from) {
  for (std::size_t at = 0; at < from.size();) {
    const ssize_t written = ::send(fd, from.data() + at, from.size() - at, MSG_NOSIGNAL);
    if (written <= 0) return false;
    at += static_cast<std::size_t>(written);
  }
  return true;
}

bool ReadAll(int fd, std::vector<std::byte>& into) {
  for (std::size_t at = 0; at < into.size();) {
    const ssize_t got = ::read(fd, into.data() + at, into.size() - at);
    if (got <= 0) return false;
    at += static_cast<std::size_t>(got);
  }
  return true;
}

double Since(Instant start) { return ToSeconds(SystemClock().Now() - start); }

}  // namespace

struct MoveBounds::State {
  std::vector<std::byte> from, to;
  net::SharedMemory memory;
  TcpPair tcp;
  std::vector<float> values, gradients;
};

MoveBounds::MoveBounds(std::unique_ptr<State> state) : state_(std::move(state)) {}
MoveBounds::MoveBounds(MoveBounds&&) noexcept = default;
MoveBounds::~MoveBounds() = default;

Result<MoveBounds> MoveBounds::Make(std::size_t bytes) {
  PACELINE_ASSIGN(auto memory, net::SharedMemory::Create(bytes));
  PACELINE_ASSIGN(TcpPair tcp, ConnectLoopback());
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes, std::byte{2});
  MoveBounds bounds(
      std::make_unique<State>(State{std::move(from), std::move(to), std::move(memory),
                                    std::move(tcp), std::vector<float>(bytes / sizeof(float), 1.0F),
                                    std::vector<float>(bytes / sizeof(float), 0.001F)}));
  bounds.Memory();  // touches the shared pages
  return bounds;
}

double MoveBounds::Memory() {
  State& state = *state_;
  std::binary_semaphore full(0);
  std::jthread consumer = StartThread("consumer", [&] {
    full.acquire();
    std::memcpy(state.to.data(), state.memory.bytes().data(), state.to.size());
  });
  const Instant start = SystemClock().Now();
  std::memcpy(state.memory.bytes().data(), state.from.data(), state.from.size());
  full.release();
  consumer.join();
  return Since(start);
}

Result<double> MoveBounds::Tcp() {
  State& state = *state_;
  bool read = false;
  const Instant start = SystemClock().Now();
  std::jthread reader =
      StartThread("reader", [&] { read = ReadAll(state.tcp.reader.get(), state.to); });
  const bool written = WriteAll(state.tcp.writer.get(), state.from);
  if (!written) ::shutdown(state.tcp.writer.get(), SHUT_RDWR);
  reader.join();
  if (!written || !read) return SystemError("a loopback connection");
  return Since(start);
}

double MoveBounds::Optimizer() {
  const Instant start = SystemClock().Now();
  kernel::SgdStep({.learning_rate = 0.001F}, state_->values, state_->gradients, {});
  return Since(start);
}

}  // namespace paceline::bench
