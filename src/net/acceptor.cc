#include "net/acceptor.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "net/internal/on_loop.h"

namespace paceline::net {

// Loop-confined but for the counter.
class Acceptor::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Loop& loop, const AcceptorOptions& options) : loop_(loop), options_(options) {}

  void OnStreamOnLoop(std::unique_ptr<ByteStream> stream) {
    if (closed_) return;
    if (strangers_.size() + waiting_.size() >= options_.max_strangers) {
      CountRefused("too many callers at once", stream->peer());
      return;
    }
    waiting_.push_back(std::move(stream));
    if (on_peer_) StartWaitingOnLoop();
  }

  void OpenOnLoop(const HandshakeContext& context, OnPeer on_peer) {
    context_ = context;
    on_peer_ = std::move(on_peer);
    StartWaitingOnLoop();
  }

  void CloseOnLoop() {
    closed_ = true;
    on_peer_ = nullptr;
    waiting_.clear();
    for (auto& [id, stranger] : std::exchange(strangers_, {})) stranger.connection->CloseOnLoop();
  }

  Loop& loop() { return loop_; }
  std::uint64_t refused() const { return refused_.load(); }

 private:
  struct Stranger {
    std::unique_ptr<Connection> connection;  // its handshake goes on until CloseOnLoop
    std::unique_ptr<Loop::Timer> deadline;
    std::string address;
  };

  void StartWaitingOnLoop() {
    while (!waiting_.empty()) {
      std::unique_ptr<ByteStream> stream = std::move(waiting_.front());
      waiting_.pop_front();
      StartOnLoop(std::move(stream));
    }
  }

  void StartOnLoop(std::unique_ptr<ByteStream> stream) {
    const std::uint64_t id = next_++;
    Stranger& stranger = strangers_[id];
    stranger.address = stream->peer();
    stranger.connection = std::make_unique<Connection>(
        loop_, std::move(stream),
        ConnectionOptions{context_.cluster, context_.generation, "caller " + stranger.address});
    stranger.deadline =
        loop_.AfterOnLoop(options_.handshake_deadline, [self = weak_from_this(), id] {
          if (const auto alive = self.lock()) {
            alive->EndOnLoop(id, "did not finish its handshake", true);
          }
        });
    Answer(*stranger.connection, options_.secret, options_.self, context_,
           [self = shared_from_this(), id](const Status& status, const Identity& peer) {
             self->OnHandshakeOnLoop(id, status, peer);
           });
  }

  void OnHandshakeOnLoop(std::uint64_t id, const Status& status, const Identity& peer) {
    if (closed_) return;
    if (!status.ok()) return EndOnLoop(id, status.message(), false);
    const auto found = strangers_.find(id);
    if (found == strangers_.end()) return;
    std::unique_ptr<Connection> connection = std::move(found->second.connection);
    strangers_.erase(found);
    on_peer_(std::move(connection), peer);
  }

  void EndOnLoop(std::uint64_t id, const std::string& why, bool in_handshake) {
    const auto found = strangers_.find(id);
    if (found == strangers_.end()) return;
    CountRefused(why, found->second.address);
    const Stranger ended = std::move(found->second);
    strangers_.erase(found);
    if (in_handshake) ended.connection->CloseOnLoop();  // else its last word is on its way
  }

  // The first few, then powers of two: a flood must not fill the log.
  void CountRefused(const std::string& why, const std::string& address) {
    constexpr std::uint64_t kAll = 4;
    const std::uint64_t count = ++refused_;
    if (count <= kAll || (count & (count - 1)) == 0) {
      PACELINE_LOG(Warning, "turned a caller away: {}: {} ({} so far)", address, why, count);
    }
  }

  Loop& loop_;
  AcceptorOptions options_;
  HandshakeContext context_;
  OnPeer on_peer_;
  bool closed_ = false;
  std::deque<std::unique_ptr<ByteStream>> waiting_;
  std::map<std::uint64_t, Stranger> strangers_;
  std::uint64_t next_ = 0;
  std::atomic<std::uint64_t> refused_{0};
};

Acceptor::Acceptor(std::shared_ptr<Impl> impl, std::unique_ptr<Listener> listener)
    : impl_(std::move(impl)), listener_(std::move(listener)) {}

Acceptor::~Acceptor() {
  listener_.reset();
  internal::RunOnLoop(impl_->loop(), [this] { impl_->CloseOnLoop(); });
}

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(Loop& loop, const AcceptorOptions& options) {
  if (options.secret.open() && !IsLoopback(options.bind.host)) {
    return Status::Error(
        Code::kUnauthenticated,
        fmt::format("refusing to listen on {} without a secret: set PACELINE_SECRET_FILE",
                    options.bind.ToString()));
  }
  auto impl = std::make_shared<Impl>(loop, options);
  PACELINE_ASSIGN(auto listener,
                  ListenTcp(loop, options.bind, [impl](std::unique_ptr<ByteStream> stream) {
                    impl->OnStreamOnLoop(std::move(stream));
                  }));
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(impl), std::move(listener)));
}

void Acceptor::Open(const HandshakeContext& context, OnPeer on_peer) {
  impl_->loop().Post([impl = impl_, context, on_peer = std::move(on_peer)]() mutable {
    impl->OpenOnLoop(context, std::move(on_peer));
  });
}

Endpoint Acceptor::endpoint() const { return listener_->endpoint(); }

std::uint64_t Acceptor::refused() const { return impl_->refused(); }

namespace {

Result<std::unique_ptr<ByteStream>> ConnectUntil(Loop& loop, const Endpoint& endpoint,
                                                 const ConnectOptions& options) {
  constexpr std::chrono::milliseconds kFirst(5), kLongest(200);
  std::chrono::nanoseconds pause = kFirst;
  for (;;) {
    auto stream = ConnectTcp(loop, endpoint, options.deadline - std::chrono::steady_clock::now());
    const Code code = stream.status().code();
    const bool later = code == Code::kNotFound || code == Code::kUnavailable;
    if (!later || options.once) return stream;
    if (options.stop.stop_requested()) return Status::Error(Code::kAborted, "told to give up");
    const auto next = std::chrono::steady_clock::now() + pause;
    if (next >= options.deadline) {
      return Status::Error(Code::kTimeout, stream.status().message());
    }
    std::this_thread::sleep_until(next);  // nobody tells us when the other side listens
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongest);
  }
}

}  // namespace

Result<std::unique_ptr<Connection>> ConnectTo(Loop& loop, const Endpoint& endpoint,
                                              const std::string& name,
                                              const ConnectOptions& options) {
  PACELINE_CHECK(!loop.OnLoop(), "connecting waits, the loop must not");
  PACELINE_ASSIGN(auto stream, ConnectUntil(loop, endpoint, options));
  auto connection = std::make_unique<Connection>(
      loop, std::move(stream),
      ConnectionOptions{options.context.cluster, options.context.generation, name});
  Completion done;
  Call(*connection, options.secret, options.self, options.context,
       [finish = done.ForSend()](const Status& status, const Identity&) { finish(status); });
  const std::stop_callback giving_up(options.stop, [&] {
    connection->Abort({.code = Code::kAborted, .text = "told to give up"});
  });
  Status status = done.Wait(options.deadline);
  if (status.code() == Code::kTimeout) {
    connection->Abort({.code = Code::kTimeout, .text = "the handshake took too long"});
    done.WaitWithoutDeadline();
  }
  if (!status.ok()) return status.Wrap(fmt::format("connecting to {}", name));
  return connection;
}

}  // namespace paceline::net
