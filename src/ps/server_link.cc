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

// Whether the same call may succeed once the server is back.
bool MayComeBack(const Status& status) {
  switch (status.code()) {
    case Code::kPeerLost:
    case Code::kAborted:
    case Code::kTimeout:
    case Code::kUnavailable: return true;
    default: return false;
  }
}

constexpr char kLost[] =
    "a server with --wal off loses what came after its last snapshot when it dies, one with a log "
    "does not; --resume goes on with what is left";

}  // namespace

Result<std::unique_ptr<ServerLink>> ServerLink::Connect(net::Loop& loop,
                                                        const LinkOptions& options) {
  std::unique_ptr<ServerLink> link(new ServerLink(loop, options));
  PACELINE_ASSIGN(Opened opened, link->Open(MemoryUse::kToTrainer));
  link->requests_ = std::move(opened.channel);
  link->initialised_ = opened.initialised;
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
  Opened opened{std::make_shared<Channel>(std::move(connection)), false, nullptr};
  PACELINE_TRY(opened.channel->Send(MessageKind::kConfigure, options_.job, deadline));
  PACELINE_ASSIGN(const Message answer, opened.channel->Receive(deadline));
  PACELINE_TRY(answer.status);
  PACELINE_ASSIGN(const auto numbers, DecodeNumbers(answer.payload, 1));
  opened.initialised = numbers[0] != 0;
  if (!options_.shared_memory) return opened;
  PACELINE_ASSIGN(opened.memory, OfferMemory(*opened.channel, use, MemoryBytes(use), deadline));
  return opened;
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

// --- requests

Status ServerLink::Ask(MessageKind kind, std::span<const std::byte> request) {
  asked_ = kind;
  asked_bytes_ = request.size();
  asked_again_.resize((request.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  std::ranges::copy(request, std::as_writable_bytes(std::span(asked_again_)).begin());
  if (unanswered_) {  // what comes next on this connection answers something else
    PACELINE_ASSIGN(Opened opened, Open(MemoryUse::kToTrainer));
    requests_ = std::move(opened.channel);
  }
  unanswered_ = true;
  Status sent = requests_->Send(kind, request, steady_clock::now() + options_.away);
  if (sent.ok() || !MayComeBack(sent)) return sent;
  return ReopenAndAsk();
}

Status ServerLink::ReopenAndAsk() {
  PACELINE_LOG(Warning, "{} is away; waiting for it", options_.name);
  PACELINE_ASSIGN(Opened opened, Open(MemoryUse::kToTrainer));
  requests_ = std::move(opened.channel);
  PACELINE_LOG(Info, "{} is back", options_.name);
  return requests_->Send(asked_, AsBytes(asked_again_).first(asked_bytes_),
                         steady_clock::now() + options_.away);
}

Status ServerLink::Await(const std::function<Status(std::span<const std::byte>)>& use,
                         const WatchPayload& watch) {
  for (;;) {
    auto answer = requests_->Receive(steady_clock::now() + options_.away, watch);
    Status status = answer.ok() ? answer->status : answer.status();
    if (status.ok() && answer->kind != asked_) {
      status = Status::Error(Code::kProtocol, "an answer to another question");
    }
    if (answer.ok() && status.code() == Code::kTimeout) {  // the server waits for other trainers
      if (options_.stopped && options_.stopped()) {
        unanswered_ = false;
        return Status::Error(Code::kAborted, "a pull was called off").Wrap(options_.name);
      }
      status = requests_->Send(asked_, AsBytes(asked_again_).first(asked_bytes_),
                               steady_clock::now() + options_.away);
      if (status.ok()) continue;
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

// --- pushes

bool ServerLink::Full() const {
  if (outstanding_.empty()) return false;
  return outstanding_.size() >= options_.window || outstanding_bytes_ >= options_.window_bytes;
}

ServerLink::Outstanding ServerLink::TakeRoom(std::size_t bytes) {
  if (Full()) return {};
  if (memory_ && bytes > kInlineBytes && bytes <= ring_.capacity()) {
    const auto at = ring_.Take(bytes);
    if (!at) return {};
    return {.bytes = AreaOf(*memory_).subspan(*at, bytes), .owner = memory_};
  }
  auto own = std::make_shared<MessageBytes>(bytes / sizeof(std::uint64_t));
  return {.bytes = std::as_writable_bytes(std::span(*own)), .owner = own};
}

Status ServerLink::Push(const ps::Push& push) {
  const std::size_t bytes = EncodedBytes(push);
  const MutexLock order(pushing_);
  Outstanding next;
  {
    const MutexLock lock(mutex_);
    while ((next = TakeRoom(bytes)).bytes.empty()) PACELINE_TRY(AwaitAck());
    PACELINE_TRY(failure_);
  }
  next.lease = push.lease;
  next.batch = push.batch;
  WriteAndQueue(push, std::move(next));
  return {};
}

// A long push is sent while its end is written.
void ServerLink::WriteAndQueue(const ps::Push& push, Outstanding next) {
  const auto written = std::make_shared<std::size_t>(0);
  next.written = written;
  EncodePush(push, next.bytes, [&](std::size_t bytes) {
    const MutexLock lock(mutex_);
    const bool is_first = *written == 0;
    *written = bytes;
    if (is_first) {
      outstanding_bytes_ += next.bytes.size();
      outstanding_.push_back(std::move(next));
    }
    changed_.notify_all();
  });
}

std::size_t ServerLink::AwaitWritten(const Outstanding& push, std::size_t before) {
  const MutexLock lock(mutex_);
  while (*push.written <= before) changed_.wait(mutex_);
  return *push.written;
}

// A server that lives but hangs breaks no connection.
Status ServerLink::AwaitAck() {
  const std::uint64_t before = acks_;
  const auto deadline = steady_clock::now() + options_.away;
  while (acks_ == before && failure_.ok()) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
  }
  if (acks_ != before || !failure_.ok()) return failure_;
  return Status::Error(Code::kTimeout,
                       fmt::format("no push was acknowledged for {} s", ToSeconds(options_.away)))
      .Wrap(options_.name);
}

Status ServerLink::Flush() {
  const MutexLock lock(mutex_);
  while (!outstanding_.empty()) PACELINE_TRY(AwaitAck());
  return failure_;
}

std::uint64_t ServerLink::Acknowledged(std::uint64_t lease) {
  const MutexLock lock(mutex_);
  return acknowledged_.lease == lease ? acknowledged_.batches : 0;
}

void ServerLink::RunPushes(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto opened = Open(MemoryUse::kToServer);
    if (!opened.ok()) return Break(opened.status(), true);
    Channel& channel = *opened->channel;
    // Memory that is used again costs less than memory that each push takes anew.
    std::shared_ptr<net::SharedMemory> own;
    if (!opened->memory) {
      auto made = net::SharedMemory::Create(MemoryBytes(MemoryUse::kToServer));
      if (made.ok()) own = std::make_shared<net::SharedMemory>(std::move(*made));
    }
    {
      const MutexLock lock(mutex_);
      if (stop.stop_requested()) return;
      pushes_ = opened->channel;
      memory_ = opened->memory ? opened->memory : own;
      ring_ = RingSpace(memory_ ? AreaOf(*memory_).size() : 0);
      broken_ = false;
      sent_ = 0;
      changed_.notify_all();
    }
    const std::jthread acks = StartThread("ps-acks", [&] { ReceiveAcks(channel); });
    SendPushes(channel, stop);
    channel.Close();
    const MutexLock lock(mutex_);
    if (!failure_.ok()) return;
  }
}

void ServerLink::SendPushes(Channel& channel, const std::stop_token& stop) {
  for (;;) {
    Outstanding next;
    {
      const MutexLock lock(mutex_);
      while (sent_ == outstanding_.size() && !broken_ && !stop.stop_requested()) {
        changed_.wait(mutex_);
      }
      if (broken_ || stop.stop_requested()) return;
      next = outstanding_[sent_++];
    }
    const Status sent = channel.SendWhileWritten(
        MessageKind::kPush, next.bytes,
        [&](const Written& written) {
          for (std::size_t bytes = 0; bytes < next.bytes.size();) {
            bytes = AwaitWritten(next, bytes);
            written(bytes);
          }
          return Status();
        },
        steady_clock::now() + options_.away);
    if (!sent.ok()) return Break(sent, !MayComeBack(sent));
  }
}

void ServerLink::ReceiveAcks(Channel& channel) {
  for (;;) {
    const auto message = channel.Receive();
    const Status status = message.ok() ? OnAck(*message) : message.status();
    if (!status.ok()) return Break(status.Wrap(options_.name), !MayComeBack(status));
  }
}

Status ServerLink::OnAck(const Message& message) {
  PACELINE_TRY(message.status);
  PACELINE_ASSIGN(const auto name, DecodeNumbers(message.payload, 2));
  const MutexLock lock(mutex_);
  if (sent_ == 0 || outstanding_.front().lease != name[0] ||
      outstanding_.front().batch != name[1]) {
    return Status::Error(Code::kProtocol, "a push was acknowledged that was not sent");
  }
  outstanding_bytes_ -= outstanding_.front().bytes.size();
  if (memory_ && outstanding_.front().owner == memory_) ring_.FreeOldest();
  acknowledged_ = {name[0], name[1] + 1};
  outstanding_.pop_front();
  ++acks_;
  --sent_;
  changed_.notify_all();
  return {};
}

void ServerLink::Break(const Status& why, bool for_good) {
  const MutexLock lock(mutex_);
  if (for_good && failure_.ok()) failure_ = why;
  broken_ = true;
  changed_.notify_all();
}

}  // namespace paceline::ps
