#include "net/tcp.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <condition_variable>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "base/mutex.h"
#include "net/internal/loop_impl.h"
#include "net/internal/on_loop.h"
#include "net/internal/tcp_use.h"

namespace paceline::net {

namespace {

using asio::ip::tcp;

std::string Name(const tcp::endpoint& endpoint) {
  return Endpoint{endpoint.address().to_string(), endpoint.port()}.ToString();
}

// The library does not ask for it, and a child process must not hold our connections open.
void CloseOnExec(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

// Inside one machine nothing is congested, and a sender that paces itself (bbr, where that is the
// system's choice) only waits: iperf3 takes more than twice as long with it (docs/benchmarks.md).
// Reno is in every kernel.
void DoNotPaceInsideMachine(tcp::socket& socket) {
  constexpr std::string_view kUnpaced = "reno";
  std::error_code error;
  const auto local = socket.local_endpoint(error), remote = socket.remote_endpoint(error);
  if (error || local.address() != remote.address()) return;
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(),
               static_cast<socklen_t>(kUnpaced.size()));
}

// Transfers everything, as much at once as the kernel takes: the library's own condition asks for
// 64 KiB at a time, and every call costs.
std::size_t AllAtOnce(const std::error_code& error, std::size_t) {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  return error ? 0 : kMost;
}

class TcpStream final : public ByteStream {
 public:
  explicit TcpStream(tcp::socket socket) : socket_(std::move(socket)) {
    std::error_code ignored;
    CloseOnExec(socket_.native_handle());
    socket_.set_option(tcp::no_delay(true), ignored);
    DoNotPaceInsideMachine(socket_);
    const tcp::endpoint remote = socket_.remote_endpoint(ignored);
    peer_ = Name(remote);
  }

  void ReadOnLoop(std::span<std::byte> into, Done done) override {
    asio::async_read(socket_, asio::buffer(into.data(), into.size()), AllAtOnce,
                     [this, done = std::move(done)](const std::error_code& error, std::size_t got) {
                       done(ReadStatus(error, got));
                     });
  }

  void WriteOnLoop(const Pieces& pieces, Done done) override {
    const std::array<asio::const_buffer, 2> buffers{
        asio::buffer(pieces[0].data(), pieces[0].size()),
        asio::buffer(pieces[1].data(), pieces[1].size())};
    asio::async_write(socket_, buffers, AllAtOnce,
                      [this, done = std::move(done)](const std::error_code& error, std::size_t) {
                        done(error ? Lost(error) : Status());
                      });
  }

  void ShutdownWriteOnLoop() override {
    std::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }

  void CloseOnLoop() override {
    std::error_code ignored;
    socket_.close(ignored);
  }

  StreamUse UseOnLoop() const override { return internal::ReadTcpUse(socket_.native_handle()); }
  std::string peer() const override { return peer_; }

 private:
  Status ReadStatus(const std::error_code& error, std::size_t got) const {
    if (!error) return {};
    if (error == asio::error::eof && got == 0) {
      return Status::Error(Code::kNotFound, fmt::format("{} closed the connection", peer_));
    }
    return Lost(error);
  }

  Status Lost(const std::error_code& error) const {
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) {
      return Status::Error(Code::kAborted, "the connection was closed on this side");
    }
    return Status::Error(Code::kPeerLost,
                         fmt::format("connection to {} broke: {}", peer_, error.message()));
  }

  mutable tcp::socket socket_;  // the library's native_handle() is not const
  std::string peer_;
};

class TcpListener final : public Listener {
 public:
  TcpListener(Loop& loop, tcp::acceptor acceptor, OnStream on_stream)
      : loop_(loop), state_(std::make_shared<State>(std::move(acceptor), std::move(on_stream))) {
    endpoint_ = {state_->acceptor.local_endpoint().address().to_string(),
                 state_->acceptor.local_endpoint().port()};
    loop_.Post([state = state_] { AcceptOnLoop(state); });
  }

  ~TcpListener() override {
    internal::RunOnLoop(loop_, [state = state_] {
      std::error_code ignored;
      state->acceptor.close(ignored);
      state->on_stream = nullptr;
    });
  }

  Endpoint endpoint() const override { return endpoint_; }

 private:
  struct State {
    State(tcp::acceptor a, OnStream f) : acceptor(std::move(a)), on_stream(std::move(f)) {}
    tcp::acceptor acceptor;
    OnStream on_stream;
    std::unique_ptr<asio::steady_timer> pause;
  };

  static void AcceptOnLoop(const std::shared_ptr<State>& state) {
    state->acceptor.async_accept([state](const std::error_code& error, tcp::socket socket) {
      if (!state->on_stream) return;
      if (!error) {
        state->on_stream(std::make_unique<TcpStream>(std::move(socket)));
        AcceptOnLoop(state);
        return;
      }
      // Out of descriptors, or a connection that died in the queue: go on, but do not spin.
      constexpr std::chrono::milliseconds kPause(100);
      state->pause = std::make_unique<asio::steady_timer>(state->acceptor.get_executor(), kPause);
      state->pause->async_wait([state](const std::error_code& cancelled) {
        if (!cancelled && state->on_stream) AcceptOnLoop(state);
      });
    });
  }

  Loop& loop_;
  std::shared_ptr<State> state_;
  Endpoint endpoint_;
};

// What a blocking connect waits for.
struct Attempt {
  explicit Attempt(asio::io_context& context) : resolver(context), socket(context) {}
  tcp::resolver resolver;
  tcp::socket socket;
  Mutex mutex;
  std::condition_variable_any changed;
  bool done PACELINE_GUARDED_BY(mutex) = false;
  std::error_code error PACELINE_GUARDED_BY(mutex);

  void Finish(const std::error_code& result) {
    const MutexLock lock(mutex);
    done = true;
    error = result;
    changed.notify_all();
  }
};

void StartOnLoop(const std::shared_ptr<Attempt>& attempt, const Endpoint& endpoint) {
  attempt->resolver.async_resolve(
      endpoint.host, std::to_string(endpoint.port),
      [attempt](const std::error_code& error, const tcp::resolver::results_type& found) {
        if (error) return attempt->Finish(error);
        asio::async_connect(attempt->socket, found,
                            [attempt](const std::error_code& connected, const tcp::endpoint&) {
                              attempt->Finish(connected);
                            });
      });
}

}  // namespace

Result<std::unique_ptr<Listener>> ListenTcp(Loop& loop, const Endpoint& endpoint,
                                            OnStream on_stream) {
  const auto failed = [&](const std::error_code& error) {
    return Status::Error(Code::kUnavailable, fmt::format("cannot listen on {}: {}",
                                                         endpoint.ToString(), error.message()));
  };
  asio::io_context& context = loop.impl().context;
  std::error_code error;
  tcp::resolver resolver(context);
  const auto found =
      resolver.resolve(endpoint.host, std::to_string(endpoint.port), tcp::resolver::passive, error);
  if (error || found.empty()) return failed(error);
  const tcp::endpoint address = *found.begin();
  tcp::acceptor acceptor(context);
  acceptor.open(address.protocol(), error);
  if (!error) CloseOnExec(acceptor.native_handle());
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(address, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return failed(error);
  return std::unique_ptr<Listener>(
      std::make_unique<TcpListener>(loop, std::move(acceptor), std::move(on_stream)));
}

Result<std::unique_ptr<ByteStream>> ConnectTcp(Loop& loop, const Endpoint& endpoint,
                                               std::chrono::nanoseconds timeout) {
  const auto attempt = std::make_shared<Attempt>(loop.impl().context);
  loop.Post([attempt, endpoint] { StartOnLoop(attempt, endpoint); });
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const MutexLock lock(attempt->mutex);
  while (!attempt->done) {
    if (attempt->changed.wait_until(attempt->mutex, deadline) == std::cv_status::timeout) {
      loop.Post([attempt] {
        std::error_code ignored;
        attempt->resolver.cancel();
        attempt->socket.close(ignored);
      });
      return Status::Error(Code::kTimeout,
                           fmt::format("connecting to {} took too long", endpoint.ToString()));
    }
  }
  if (attempt->error) {
    return Status::Error(
        attempt->error == asio::error::connection_refused ? Code::kNotFound : Code::kUnavailable,
        fmt::format("cannot connect to {}: {}", endpoint.ToString(), attempt->error.message()));
  }
  return std::unique_ptr<ByteStream>(std::make_unique<TcpStream>(std::move(attempt->socket)));
}

}  // namespace paceline::net
