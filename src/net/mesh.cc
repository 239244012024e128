#include "net/mesh.h"

#include <condition_variable>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/mutex.h"

namespace paceline::net {

std::string MemberName(const wire::Member& member) {
  return fmt::format("rank {} ({}, {})", member.rank.value(), member.host, member.address);
}

class Mesh::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Loop& loop, wire::View view, Rank self)
      : loop_(loop), view_(std::move(view)), self_(self), connections_(view_.members.size()) {}

  Rank self() const { return self_; }
  const wire::View& view() const { return view_; }

  Connection& to(Rank rank) {
    PACELINE_CHECK(rank != self_ && rank.value() < connections_.size(), "another rank");
    return *connections_[rank.value()];  // set before Connect() returned, constant since
  }

  // Refuses a rank twice, itself, and ranks outside the view.
  bool Add(Rank rank, std::unique_ptr<Connection> connection) {
    const MutexLock lock(mutex_);
    if (rank.value() >= connections_.size() || rank == self_ ||
        connections_[rank.value()] != nullptr) {
      return false;
    }
    connection->SetPeer(MemberName(view_.members[rank.value()]), rank.value());
    connections_[rank.value()] = std::move(connection);
    changed_.notify_all();
    return true;
  }

  Status AwaitAll(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop) {
    const std::stop_callback waking(stop, [this] {
      const MutexLock lock(mutex_);
      changed_.notify_all();
    });
    const MutexLock lock(mutex_);
    for (;;) {
      if (Missing().empty()) return {};
      if (stop.stop_requested()) return Status::Error(Code::kAborted, "told to give up");
      if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout && !Missing().empty()) {
        return Status::Error(Code::kTimeout, fmt::format("no connection from {}", Missing()));
      }
    }
  }

  void Watch() {
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i] == nullptr) continue;
      connections_[i]->WhenClosed([self = weak_from_this()](const Closed& how) {
        if (const auto alive = self.lock(); alive && !how.polite) alive->FailOnLoop(how);
      });
    }
  }

  void WhenFailed(Connection::OnClosed on_failed) {
    loop_.Post([self = shared_from_this(), on_failed = std::move(on_failed)]() mutable {
      if (self->failed_) return on_failed(*self->failed_);
      self->on_failed_ = std::move(on_failed);
    });
  }

  void Abort(const wire::Failure& why) {
    loop_.Post([self = shared_from_this(), why] {
      self->FailOnLoop({Status::Error(why.code, why.text), why.blamed, false});
    });
  }

  void Leave() {
    for (const auto& connection : connections_) {
      if (connection != nullptr) connection->Leave();
    }
  }

  template <typename Count>
  std::uint64_t Total(Count count) const {
    std::uint64_t total = 0;
    for (const auto& connection : connections_) {
      if (connection != nullptr) total += count(*connection);
    }
    return total;
  }

 private:
  std::string Missing() const PACELINE_REQUIRES(mutex_) {
    std::string names;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i] != nullptr || i == self_.value()) continue;
      names += (names.empty() ? "" : ", ") + MemberName(view_.members[i]);
    }
    return names;
  }

  void FailOnLoop(const Closed& how) {
    if (failed_) return;
    failed_ = how;
    const wire::Failure why{how.status.code(), how.blamed, how.status.message()};
    for (const auto& connection : connections_) {
      if (connection != nullptr) connection->Abort(why);
    }
    if (on_failed_) std::exchange(on_failed_, nullptr)(how);
  }

  Loop& loop_;
  const wire::View view_;
  const Rank self_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<Connection>> connections_;  // under mutex_ until all are there
  std::optional<Closed> failed_;                          // loop-confined, and the next
  Connection::OnClosed on_failed_;
};

Result<std::unique_ptr<Mesh>> Mesh::Connect(Loop& loop, Acceptor& acceptor, const wire::View& view,
                                            const Options& options) {
  const auto impl = std::make_shared<Impl>(loop, view, options.self);
  const HandshakeContext context{view.cluster, view.generation};
  acceptor.Open(context, [impl](std::unique_ptr<Connection> connection, const Identity& peer) {
    Connection& caller = *connection;
    if (peer.role == wire::Role::kWorker && impl->Add(peer.rank, std::move(connection))) return;
    if (connection == nullptr) return;
    caller.Abort({.code = Code::kAlreadyRunning,
                  .text = fmt::format("rank {} is here already", peer.rank.value())});
  });
  for (std::uint64_t rank = 0; rank < options.self.value(); ++rank) {
    const wire::Member& member = view.members[rank];
    PACELINE_ASSIGN(const Endpoint endpoint, ParseEndpoint(member.address));
    PACELINE_ASSIGN(auto connection, ConnectTo(loop, endpoint, MemberName(member),
                                               {options.secret,
                                                {wire::Role::kWorker, options.self},
                                                context,
                                                options.deadline,
                                                options.stop}));
    PACELINE_CHECK(impl->Add(Rank(rank), std::move(connection)), "we call every rank once");
  }
  PACELINE_TRY(impl->AwaitAll(options.deadline, options.stop));
  impl->Watch();
  return std::unique_ptr<Mesh>(new Mesh(impl));
}

Mesh::~Mesh() = default;

Rank Mesh::self() const { return impl_->self(); }

std::uint64_t Mesh::world() const { return impl_->view().members.size(); }

const wire::View& Mesh::view() const { return impl_->view(); }

Connection& Mesh::to(Rank rank) { return impl_->to(rank); }

void Mesh::WhenFailed(Connection::OnClosed on_failed) { impl_->WhenFailed(std::move(on_failed)); }

void Mesh::Abort(const wire::Failure& why) { impl_->Abort(why); }

void Mesh::Leave() { impl_->Leave(); }

std::uint64_t Mesh::bytes_sent() const {
  return impl_->Total([](const Connection& connection) { return connection.bytes_sent(); });
}

std::uint64_t Mesh::frames_sent() const {
  return impl_->Total([](const Connection& connection) { return connection.frames_sent(); });
}

}  // namespace paceline::net
