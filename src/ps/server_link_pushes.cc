// How a trainer's pushes get to one server.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "ps/protocol.h"
#include "ps/server_link.h"

namespace paceline::ps {

namespace {

using std::chrono::steady_clock;

// Of a push that is being written whoever sends it hears every so many bytes.
constexpr std::size_t kAnnouncedBytes = std::size_t{1} << 20;

constexpr std::chrono::milliseconds kLookForStop(100);

}  // namespace

bool ServerLink::Full() const {
  if (outstanding_.empty()) return false;
  return outstanding_.size() >= options_.window || outstanding_bytes_ >= options_.window_bytes;
}

ServerLink::Outstanding ServerLink::TakeRoom(std::size_t bytes) {
  if (Full()) return {};
  if (memory_ && bytes > kInlineBytes && bytes <= space_.capacity()) {
    const auto at = space_.Take(bytes);
    if (!at) return {};
    return {.bytes = AreaOf(*memory_).subspan(*at, bytes), .owner = memory_};
  }
  auto own = std::make_shared<MessageBytes>(bytes / sizeof(std::uint64_t));
  return {.bytes = std::as_writable_bytes(std::span(*own)), .owner = own};
}

Status ServerLink::Push(const ps::Push& push) {
  PACELINE_TRY(BeginPush(push, push.dense.size()));
  AppendDense(push.dense);
  return EndPush();
}

// Keeps other pushes away from then on, unless it fails.
Result<ServerLink::Outstanding> ServerLink::AwaitRoom(std::size_t bytes) {
  const MutexLock lock(mutex_);
  while (pushing_) changed_.wait(mutex_);
  pushing_ = true;
  Status status;
  Outstanding room;
  while (status.ok() && (room = TakeRoom(bytes)).bytes.empty()) status = AwaitAck();
  if (status.ok()) status = failure_;
  if (status.ok()) return room;
  LetOthersPush();
  return status;
}

Status ServerLink::BeginPush(const ps::Push& push, std::size_t dense_floats) {
  PACELINE_ASSIGN(Outstanding next, AwaitRoom(PushEncoder::Bytes(push, dense_floats)));
  next.lease = push.lease;
  next.batch = push.batch;
  next.writing = std::make_shared<Writing>();
  const PushEncoder encoder(push, dense_floats, next.bytes);
  open_.emplace(OpenPush{std::move(next), encoder});
  return {};
}

// A long push is sent while its end is written. That is left to EndPush(): what the server has as a
// whole it applies, and then it cannot be taken back.
void ServerLink::AppendDense(std::span<const float> floats) {
  while (!floats.empty()) {
    const std::size_t count = std::min(kAnnouncedBytes / sizeof(float), floats.size());
    open_->encoder.Append(floats.first(count));
    floats = floats.subspan(count);
    const std::size_t written = open_->encoder.written();
    const bool is_whole = written == open_->push.bytes.size();
    if (!is_whole && written - open_->announced >= kAnnouncedBytes) Announce();
  }
}

void ServerLink::Announce() {
  const MutexLock lock(mutex_);
  if (open_->announced == 0) {
    outstanding_bytes_ += open_->push.bytes.size();
    outstanding_.push_back(open_->push);
  }
  open_->announced = open_->encoder.written();
  open_->push.writing->bytes = open_->announced;
  changed_.notify_all();
}

Status ServerLink::EndPush() {
  PACELINE_CHECK(open_->encoder.written() == open_->push.bytes.size(), "all floats are there");
  Announce();
  const MutexLock lock(mutex_);
  LetOthersPush();
  return failure_;
}

void ServerLink::LetOthersPush() {
  open_.reset();
  pushing_ = false;
  changed_.notify_all();
}

// The server may have seen the beginning: it forgets it when the connection breaks, and what comes
// on the next one counts.
void ServerLink::CancelPush() {
  const MutexLock lock(mutex_);
  if (open_->announced > 0) {
    outstanding_bytes_ -= outstanding_.back().bytes.size();
    outstanding_.pop_back();
    sent_ = std::min(sent_, outstanding_.size());
    open_->push.writing->cancelled = true;
    broken_ = true;
    if (pushes_) pushes_->Close();
  } else if (memory_ && open_->push.owner == memory_) {
    space_.FreeNewest();
  }
  LetOthersPush();
}

Result<std::size_t> ServerLink::AwaitWritten(const Outstanding& push, std::size_t before) {
  const MutexLock lock(mutex_);
  while (push.writing->bytes <= before && !push.writing->cancelled) changed_.wait(mutex_);
  if (push.writing->cancelled) return Status::Error(Code::kAborted, "a push was cancelled");
  return push.writing->bytes;
}

// A server that lives but hangs breaks no connection. Whoever is asked to stop still waits a
// little: what is on its way mostly arrives, and then need not be computed again.
Status ServerLink::AwaitAck() {
  const std::uint64_t before = acks_;
  const auto deadline = steady_clock::now() + options_.away;
  auto last = deadline;  // comes earlier once this trainer stops
  while (acks_ == before && failure_.ok() && steady_clock::now() < last) {
    // A signal notifies nobody.
    changed_.wait_until(mutex_, std::min(last, steady_clock::now() + kLookForStop));
    if (last == deadline && options_.stopped && options_.stopped()) {
      last = std::min(deadline, steady_clock::now() + options_.stop_grace);
    }
  }
  if (acks_ != before || !failure_.ok()) return failure_;
  if (last < deadline) {
    return Status::Error(Code::kAborted,
                         fmt::format("stopped with {} push(es) not acknowledged; a resumed "
                                     "run makes them again",
                                     outstanding_.size()))
        .Wrap(options_.name);
  }
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
      space_ = PushSpace(memory_ ? AreaOf(*memory_).size() : 0);
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
        [&](const Written& written) -> Status {
          for (std::size_t bytes = 0; bytes < next.bytes.size();) {
            PACELINE_ASSIGN(bytes, AwaitWritten(next, bytes));
            written(bytes);
          }
          return {};
        },
        options_.away);
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
  if (memory_ && outstanding_.front().owner == memory_) space_.FreeOldest();
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
