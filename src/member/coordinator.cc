#include "member/coordinator.h"

#include <condition_variable>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutex.h"
#include "wire/endian.h"

namespace paceline::member {

namespace {
constexpr std::size_t kMaxControl = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kFarewell(2'000);  // for workers to close their side
}  // namespace

// Loop-confined but for the end.
class Coordinator::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(net::Loop& loop, const Clock& clock, const CoordinatorOptions& options)
      : loop_(loop),
        clock_(clock),
        options_(options),
        logic_(options.membership, options.state, clock.Now()) {}

  net::Loop& loop() { return loop_; }

  void OnPeerOnLoop(std::unique_ptr<net::Connection> connection) {
    const ConnectionId id = next_++;
    Guest& guest = guests_[id];
    guest.connection = std::move(connection);
    guest.buffer = std::make_shared<std::vector<std::byte>>(kMaxControl);
    guest.connection->WhenClosed([self = weak_from_this(), id](const net::Closed&) {
      if (const auto alive = self.lock()) alive->OnClosedOnLoop(id);
    });
    ReceiveOnLoop(id);
  }

  void TickOnLoop() {
    Do(logic_.OnTick(clock_.Now()));
    if (options_.on_status) options_.on_status(logic_.StatusAt(clock_.Now()));
    timer_ = loop_.AfterOnLoop(options_.membership.heartbeat / 2, [self = weak_from_this()] {
      if (const auto alive = self.lock()) alive->TickOnLoop();
    });
  }

  void CloseOnLoop() {
    timer_.reset();
    guests_.clear();
  }

  CoordinatorEnd Wait(const std::function<bool()>& stopped) {
    const MutexLock lock(mutex_);
    while (!end_ || !everybody_gone_) {
      changed_.wait_for(mutex_, std::chrono::milliseconds(50));
      if (!end_ && stopped()) return {Code::kAborted, "stopped"};
      if (end_ && std::chrono::steady_clock::now() >= farewell_) break;
    }
    return *end_;
  }

 private:
  struct Guest {
    std::unique_ptr<net::Connection> connection;
    // Lent to the connection, which may still fill it when the guest is gone.
    std::shared_ptr<std::vector<std::byte>> buffer;
    bool registered = false;
  };

  void ReceiveOnLoop(ConnectionId id) {
    Guest& guest = guests_[id];
    guest.connection->Receive(
        {.type = wire::FrameType::kControl, .exact = false}, *guest.buffer,
        [self = weak_from_this(), id, buffer = guest.buffer](const Status& status, std::size_t n) {
          if (const auto alive = self.lock()) {
            alive->OnReceivedOnLoop(id, status, std::span(*buffer).first(n));
          }
        });
  }

  void OnReceivedOnLoop(ConnectionId id, const Status& status, std::span<const std::byte> bytes) {
    const auto found = guests_.find(id);
    if (found == guests_.end() || !status.ok()) return;  // its end is told apart
    Guest& guest = found->second;
    auto message = wire::DecodeControl(bytes);
    const bool first = !guest.registered;
    if (!message.ok() || first != std::holds_alternative<wire::Register>(*message)) {
      guest.connection->Abort({.code = Code::kProtocol, .text = "not what a worker says here"});
      return;
    }
    guest.registered = true;
    const Instant now = clock_.Now();
    Do(first ? logic_.OnRegister(id, std::get<wire::Register>(*message), now)
             : logic_.OnMessage(id, *message, now));
    if (guests_.contains(id)) ReceiveOnLoop(id);
  }

  void OnClosedOnLoop(ConnectionId id) {
    Do(logic_.OnClosed(id, clock_.Now()));
    guests_.erase(id);
    const MutexLock lock(mutex_);
    everybody_gone_ = guests_.empty();
    changed_.notify_all();
  }

  void Do(Actions actions) {
    for (Action& action : actions) {
      if (auto* send = std::get_if<SendControl>(&action)) {
        SendOnLoop(send->to, send->message);
      } else if (auto* close = std::get_if<CloseConnection>(&action)) {
        HangUpOnLoop(*close);
      } else if (auto* save = std::get_if<SaveState>(&action)) {
        const Status saved = options_.save ? options_.save(save->state) : Status();
        if (!saved.ok()) {
          return EndOnLoop(
              {saved.code(), "the coordinator's state cannot be saved: " + saved.message()});
        }
      } else if (auto* note = std::get_if<Note>(&action)) {
        if (options_.on_note) options_.on_note(*note);
      } else if (auto* end = std::get_if<EndRun>(&action)) {
        EndOnLoop({end->code, end->why});
      }
    }
  }

  void SendOnLoop(ConnectionId to, const wire::Control& message) {
    const auto found = guests_.find(to);
    if (found == guests_.end()) return;
    auto bytes = std::make_shared<std::vector<std::byte>>(wire::EncodeControl(message));
    found->second.connection->Send(wire::FrameType::kControl, 0, *bytes, [bytes](const Status&) {});
  }

  void HangUpOnLoop(const CloseConnection& close) {
    const auto found = guests_.find(close.connection);
    if (found == guests_.end()) return;
    if (close.code == Code::kOk) return found->second.connection->Leave();
    found->second.connection->Abort({.code = close.code, .text = close.why});
  }

  void EndOnLoop(const CoordinatorEnd& end) {
    if (options_.on_status) options_.on_status(logic_.StatusAt(clock_.Now()));
    const MutexLock lock(mutex_);
    if (end_) return;
    end_ = end;
    everybody_gone_ = guests_.empty();
    farewell_ = std::chrono::steady_clock::now() + kFarewell;
    changed_.notify_all();
  }

  net::Loop& loop_;
  const Clock& clock_;
  CoordinatorOptions options_;
  CoordinatorLogic logic_;
  std::map<ConnectionId, Guest> guests_;
  ConnectionId next_ = 1;
  std::unique_ptr<net::Loop::Timer> timer_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<CoordinatorEnd> end_ PACELINE_GUARDED_BY(mutex_);
  bool everybody_gone_ PACELINE_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point farewell_ PACELINE_GUARDED_BY(mutex_);
};

Coordinator::Coordinator(std::shared_ptr<Impl> impl, std::unique_ptr<net::Acceptor> acceptor)
    : impl_(std::move(impl)), acceptor_(std::move(acceptor)) {}

Coordinator::~Coordinator() {
  acceptor_.reset();
  impl_->loop().Post([impl = std::move(impl_)] { impl->CloseOnLoop(); });
}

Result<std::unique_ptr<Coordinator>> Coordinator::Start(net::Loop& loop, const Clock& clock,
                                                        const CoordinatorOptions& options) {
  PACELINE_TRY(options.membership.Validate());
  CoordinatorOptions own = options;
  if (own.state.cluster == 0) {
    PACELINE_ASSIGN(const wire::Nonce nonce, net::MakeNonce());
    own.state.cluster = wire::LoadU64(nonce.data());
  }
  PACELINE_ASSIGN(auto acceptor,
                  net::Acceptor::Listen(loop, {.bind = options.bind,
                                               .secret = options.secret,
                                               .self = {wire::Role::kCoordinator, Rank(0)}}));
  const auto impl = std::make_shared<Impl>(loop, clock, own);
  loop.Post([impl] { impl->TickOnLoop(); });
  acceptor->Open({}, [impl](std::unique_ptr<net::Connection> connection, const net::Identity&) {
    impl->OnPeerOnLoop(std::move(connection));
  });
  return std::unique_ptr<Coordinator>(new Coordinator(impl, std::move(acceptor)));
}

net::Endpoint Coordinator::endpoint() const { return acceptor_->endpoint(); }

CoordinatorEnd Coordinator::Wait(const std::function<bool()>& stopped) {
  return impl_->Wait(stopped);
}

}  // namespace paceline::member
