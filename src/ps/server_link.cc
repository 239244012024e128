#include "ps/server_link.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/acceptor.h"
#include "ps/protocol.h"

namespace paceline::ps {

namespace {

using std::chrono::steady_clock;

// Costs nothing until it is used.
constexpr std::size_t kMemoryForRows = std::size_t{64} << 20;

constexpr char kLost[] =
    "a server with --wal off loses what came after its last snapshot when it dies, one with a log "
    "does not; --resume goes on with what is left";

}  // namespace

bool ServerLink::MayComeBack(const Status& status) {
  switch (status.code()) {
    case Code::kPeerLost:
    case Code::kAborted:
    case Code::kTimeout:
    case Code::kUnavailable: return true;
    default: return false;
  }
}

Result<std::unique_ptr<ServerLink>> ServerLink::Connect(net::Loop& loop,
                                                        const LinkOptions& options) {
  std::unique_ptr<ServerLink> link(new ServerLink(loop, options));
  PACELINE_ASSIGN(Opened opened, link->Open(MemoryUse::kToTrainer));
  link->initialised_ = opened.initialised;
  link->UseForRequests(std::move(opened));
  link->thread_ = StartThread(
      "ps-push", [self = link.get()](const std::stop_token& stop) { self->RunPushes(stop); });
  return link;
}

ServerLink::~ServerLink() {
  stop_.request_stop();
  thread_.request_stop();
  {
    const MutexLock lock(mutex_);
    if (pushes_) pushes_->Close();
    changed_.notify_all();
  }
}

// A connection on which the job was said.
Result<ServerLink::Opened> ServerLink::Open(MemoryUse use) {
  const auto deadline = steady_clock::now() + options_.away;
  for (;;) {
    bool had_values = false;  // before it is asked: meanwhile the first ones may arrive
    {
      const MutexLock lock(mutex_);
      had_values = had_values_;
    }
    auto connection = net::ConnectTo(loop_, options_.server, options_.name,
                                     {.secret = options_.secret,
                                      .self = {wire::Role::kWorker, Rank(options_.trainer)},
                                      .context = {},
                                      .deadline = deadline,
                                      .stop = stop_.get_token()});
    Status status = connection.status();
    if (connection.ok()) {
      auto opened = Introduce(std::move(*connection), use, deadline);
      status = opened.ok() ? CheckNothingLost(*opened, had_values, deadline) : opened.status();
      if (status.ok()) return opened;
    }
    const bool again = MayComeBack(status) && !stop_.stop_requested();
    if (!again || steady_clock::now() >= deadline) return status.Wrap(options_.name);
  }
}

Result<ServerLink::Opened> ServerLink::Introduce(std::unique_ptr<net::Connection> connection,
                                                 MemoryUse use, Deadline deadline) const {
  Opened opened{std::make_shared<Channel>(std::move(connection)), false, nullptr, {}};
  PACELINE_TRY(opened.channel->Send(MessageKind::kConfigure, options_.job, deadline));
  PACELINE_ASSIGN(const Message answer, opened.channel->Receive(deadline));
  PACELINE_TRY(answer.status);
  PACELINE_ASSIGN(const auto numbers, DecodeNumbers(answer.payload, 1));
  opened.initialised = numbers[0] != 0;
  if (!options_.shared_memory) return opened;
  PACELINE_ASSIGN(opened.memory, OfferMemory(*opened.channel, use, MemoryBytes(use), deadline));
  if (opened.memory && use == MemoryUse::kToTrainer) PACELINE_TRY(MapValues(opened, deadline));
  return opened;
}

// Few values are in the answer before their memory is found.
Status ServerLink::MapValues(Opened& opened, Deadline deadline) const {
  if (options_.dense_bytes <= kInlineBytes) return {};
  const auto offer = AskForValues(*opened.channel, deadline);
  if (!offer.ok()) return offer.status().code() == Code::kNotFound ? Status() : offer.status();
  auto values = FloatsReader::Map(*offer);
  const bool fits = values.ok() && values->size() * sizeof(float) == options_.dense_bytes;
  if (fits) opened.values = std::move(*values);
  return {};
}

void ServerLink::UseForRequests(Opened opened) {
  requests_ = std::move(opened.channel);
  values_ = std::move(opened.values);
}

std::size_t ServerLink::MemoryBytes(MemoryUse use) const {
  const std::size_t pushes = use == MemoryUse::kToServer ? 2 : 1;  // one waits
  return pushes * options_.dense_bytes + kMemoryForRows;
}

// The server may be another process than before.
Status ServerLink::CheckNothingLost(const Opened& opened, bool had_values,
                                    steady_clock::time_point deadline) {
  std::uint64_t lease = 0, batches = 0;
  {
    const MutexLock lock(mutex_);
    if (opened.initialised) had_values_ = true;
    if (had_values && acknowledged_.batches == 0 && !opened.initialised) {
      return Status::Error(Code::kBadCheckpoint, fmt::format("it has lost its values; {}", kLost));
    }
    lease = acknowledged_.lease;
    batches = acknowledged_.batches;
  }
  if (batches == 0) return {};
  PACELINE_TRY(opened.channel->Send(MessageKind::kNextBatch,
                                    EncodeNumbers(std::array<std::uint64_t, 1>{lease}), deadline));
  PACELINE_ASSIGN(const Message answer, opened.channel->Receive(deadline));
  PACELINE_TRY(answer.status);
  PACELINE_ASSIGN(const auto next, DecodeNumbers(answer.payload, 1));
  if (next[0] >= batches) return {};
  return Status::Error(Code::kBadCheckpoint,
                       fmt::format("it has lost {} acknowledged pushes of trainer {}; {}",
                                   batches - next[0], options_.trainer, kLost));
}

Status ServerLink::Ask(MessageKind kind, std::span<const std::byte> request) {
  asked_ = kind;
  asked_bytes_ = request.size();
  auto copy = std::make_shared<MessageBytes>((request.size() + sizeof(std::uint64_t) - 1) /
                                             sizeof(std::uint64_t));
  std::ranges::copy(request, std::as_writable_bytes(std::span(*copy)).begin());
  asked_again_ = std::move(copy);
  if (unanswered_) {  // what comes next on this connection answers something else
    PACELINE_ASSIGN(Opened opened, Open(MemoryUse::kToTrainer));
    UseForRequests(std::move(opened));
  }
  unanswered_ = true;
  SendAsked();
  return {};
}

// Whether it arrives is seen by Await().
void ServerLink::SendAsked() {
  requests_->SendKept(asked_, asked_again_, AsBytes(*asked_again_).first(asked_bytes_));
}

Status ServerLink::ReopenAndAsk() {
  PACELINE_LOG(Warning, "{} is away; waiting for it", options_.name);
  PACELINE_ASSIGN(Opened opened, Open(MemoryUse::kToTrainer));
  UseForRequests(std::move(opened));
  PACELINE_LOG(Info, "{} is back", options_.name);
  SendAsked();
  return {};
}

Status ServerLink::Await(const std::function<Status(std::span<const std::byte>)>& use,
                         const Arrival& arrival) {
  for (;;) {
    auto answer = requests_->Receive(steady_clock::now() + options_.away, arrival);
    Status status = answer.ok() ? answer->status : answer.status();
    if (status.ok() && answer->kind != asked_) {
      status = Status::Error(Code::kProtocol, "an answer to another question");
    }
    if (answer.ok() && status.code() == Code::kTimeout) {  // the server waits for other trainers
      if (options_.stopped && options_.stopped()) {
        unanswered_ = false;
        return Status::Error(Code::kAborted, "a pull was called off").Wrap(options_.name);
      }
      SendAsked();
      continue;
    }
    if (status.ok()) {
      unanswered_ = false;
      if (asked_ == MessageKind::kInitialise) {
        const MutexLock lock(mutex_);
        had_values_ = true;
      }
      return use(answer->payload).Wrap(options_.name);
    }
    if (!MayComeBack(status)) return status.Wrap(options_.name);
    PACELINE_TRY(ReopenAndAsk());
  }
}

}  // namespace paceline::ps
