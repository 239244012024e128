#include "member/rendezvous.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/fingerprint.h"
#include "wire/endian.h"
#include "wire/frame.h"

namespace paceline::member {

using net::Connection;
using net::Identity;
using wire::FrameType;

namespace {

constexpr std::size_t kMaxRendezvousMessage = std::size_t{1} << 20;

}  // namespace

// Loop-confined.
class RendezvousServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(net::Loop& loop, const RendezvousOptions& options, std::uint64_t cluster)
      : loop_(loop), options_(options), cluster_(cluster) {}

  void OnPeerOnLoop(std::unique_ptr<Connection> connection, const Identity& peer) {
    if (failure_) return connection->Abort(*failure_);
    if (peer.role != wire::Role::kWorker || peer.rank.value() >= options_.world) {
      connection->Abort(
          {.code = Code::kMismatch,
           .text = fmt::format("rank {} of a job of {} ranks", peer.rank.value(), options_.world)});
      return;
    }
    if (guests_.contains(peer.rank.value())) {
      connection->Abort({.code = Code::kAlreadyRunning,
                         .text = fmt::format("rank {} is here already", peer.rank.value())});
      return;
    }
    if (!timer_) {
      timer_ = loop_.AfterOnLoop(options_.timeout, [self = weak_from_this()] {
        if (const auto alive = self.lock()) alive->OnTimeoutOnLoop();
      });
    }
    Guest& guest = guests_[peer.rank.value()];
    guest.connection = std::move(connection);
    const auto buffer = std::make_shared<std::vector<std::byte>>(kMaxRendezvousMessage);
    guest.connection->Receive(
        {.type = FrameType::kJoin, .exact = false}, *buffer,
        // The buffer is kept here: the connection may still fill it when the guest is gone.
        [self = weak_from_this(), rank = peer.rank, buffer](const Status& status, std::size_t n) {
          if (const auto alive = self.lock()) {
            alive->OnJoinOnLoop(rank, status, std::span(*buffer).first(n));
          }
        });
  }

  net::Loop& loop() { return loop_; }

 private:
  struct Guest {
    std::unique_ptr<Connection> connection;
    std::optional<wire::Join> join;
  };

  void OnJoinOnLoop(Rank rank, const Status& status, std::span<const std::byte> bytes) {
    if (ended_) return;
    Guest& guest = guests_[rank.value()];
    auto join = status.ok() ? wire::Join::Decode(bytes) : Result<wire::Join>(status);
    if (!join.ok()) {
      return EndOnLoop({.code = join.status().code(),
                        .blamed = rank.value(),
                        .text = fmt::format("rank {} failed to join: {}", rank.value(),
                                            join.status().message())});
    }
    guest.join = *join;
    guest.join->member.rank = rank;
    if (const auto why = Disagreement(*guest.join)) return EndOnLoop(*why);
    if (AllJoined()) SendViewOnLoop();
  }

  std::optional<wire::Failure> Disagreement(const wire::Join& join) const {
    const std::uint64_t rank = join.member.rank.value();
    if (join.world != options_.world) {
      return wire::Failure{Code::kMismatch, rank,
                           fmt::format("rank {} expects {} ranks, the job has {}", rank, join.world,
                                       options_.world)};
    }
    for (const auto& [other, guest] : guests_) {
      if (!guest.join || guest.join->fingerprint == join.fingerprint) continue;
      return wire::Failure{
          Code::kMismatch, rank,
          fmt::format("rank {} / rank {} differ in {}", other, rank,
                      FingerprintDifference(guest.join->fingerprint, join.fingerprint))};
    }
    return std::nullopt;
  }

  bool AllJoined() const {
    if (guests_.size() != options_.world) return false;
    return std::all_of(guests_.begin(), guests_.end(),
                       [](const auto& entry) { return entry.second.join.has_value(); });
  }

  void SendViewOnLoop() {
    ended_ = true;
    timer_.reset();
    wire::View view{.cluster = cluster_, .generation = Generation(1)};
    view.members.reserve(guests_.size());
    for (const auto& [rank, guest] : guests_) view.members.push_back(guest.join->member);
    view_ = view.Encode();
    for (auto& [rank, guest] : guests_) {
      guest.connection->Send(FrameType::kView, 0, view_,
                             [self = shared_from_this()](const Status&) {});
      guest.connection->Leave();
    }
  }

  void OnTimeoutOnLoop() {
    std::string missing;
    for (std::uint64_t rank = 0; rank < options_.world; ++rank) {
      const auto found = guests_.find(rank);
      if (found != guests_.end() && found->second.join) continue;
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    }
    EndOnLoop({.code = Code::kTimeout,
               .text = fmt::format("rendezvous: rank(s) {} of {} did not come within {} s", missing,
                                   options_.world, options_.timeout.count() / 1000)});
  }

  void EndOnLoop(const wire::Failure& why) {
    if (ended_) return;
    ended_ = true;
    failure_ = why;
    timer_.reset();
    for (auto& [rank, guest] : guests_) guest.connection->Abort(why);
  }

  net::Loop& loop_;
  RendezvousOptions options_;
  std::uint64_t cluster_;
  std::map<std::uint64_t, Guest> guests_;
  std::unique_ptr<net::Loop::Timer> timer_;
  std::vector<std::byte> view_;
  bool ended_ = false;
  std::optional<wire::Failure> failure_;  // what latecomers are told
};

RendezvousServer::RendezvousServer(std::shared_ptr<Impl> impl,
                                   std::unique_ptr<net::Acceptor> acceptor)
    : impl_(std::move(impl)), acceptor_(std::move(acceptor)) {}

// The guests' connections close when the loop drops the last reference.
RendezvousServer::~RendezvousServer() {
  acceptor_.reset();
  impl_->loop().Post([impl = std::move(impl_)] {});
}

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(
    net::Loop& loop, const RendezvousOptions& options) {
  PACELINE_ASSIGN(const wire::Nonce nonce, net::MakeNonce());
  const auto cluster = wire::LoadU64(nonce.data());
  PACELINE_ASSIGN(auto acceptor,
                  net::Acceptor::Listen(loop, {.bind = options.bind,
                                               .secret = options.secret,
                                               .self = {wire::Role::kCoordinator, Rank(0)}}));
  const auto impl = std::make_shared<Impl>(loop, options, cluster);
  acceptor->Open({}, [impl](std::unique_ptr<Connection> connection, const Identity& peer) {
    impl->OnPeerOnLoop(std::move(connection), peer);
  });
  return std::unique_ptr<RendezvousServer>(new RendezvousServer(impl, std::move(acceptor)));
}

net::Endpoint RendezvousServer::endpoint() const { return acceptor_->endpoint(); }

Result<wire::View> JoinRendezvous(net::Loop& loop, const JoinOptions& options) {
  const std::string name = "the coordinator at " + options.coordinator.ToString();
  PACELINE_ASSIGN(auto connection,
                  net::ConnectTo(loop, options.coordinator, name,
                                 {.secret = options.secret,
                                  .self = {wire::Role::kWorker, options.join.member.rank},
                                  .context = {},
                                  .deadline = options.deadline}));
  const std::vector<std::byte> join = options.join.Encode();
  std::vector<std::byte> buffer(kMaxRendezvousMessage);
  net::Completion sent, received;
  connection->Send(FrameType::kJoin, 0, join, sent.ForSend());
  connection->Receive({.type = FrameType::kView, .exact = false}, buffer, received.ForReceive());
  Status status = received.Wait(options.deadline);
  if (status.code() == Code::kTimeout) {
    connection->Abort({.code = Code::kTimeout,
                       .text = fmt::format("rank {} waited too long for the others",
                                           options.join.member.rank.value())});
    received.WaitWithoutDeadline();
  }
  sent.WaitWithoutDeadline();
  if (!status.ok()) return status.Wrap(fmt::format("joining the job at {}", name));
  connection->Leave();
  PACELINE_ASSIGN(wire::View view, wire::View::Decode(std::span(buffer).first(received.bytes())));
  if (view.members.size() != options.join.world) {
    return Status::Error(Code::kProtocol, "the view has another number of ranks than the job");
  }
  return view;
}

}  // namespace paceline::member
