#include "ps/channel.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "kernel/copy.h"
#include "wire/endian.h"

namespace paceline::ps {

namespace {

constexpr auto kFrame = wire::FrameType::kData;
constexpr std::uint64_t kTag = 0x5350;  // "PS": a rank of a collective would not understand
constexpr std::size_t kHead = 16, kSharedHead = 24;
constexpr std::uint32_t kShared = 1;  // flag of a head: an offset into shared memory follows
constexpr std::size_t kPiece = std::size_t{1} << 20;   // stays in the cache for its checksum
constexpr std::size_t kAhead = std::size_t{64} << 20;  // is asked for at once
constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;
constexpr std::size_t kLongestText = 4096;

void WriteHead(std::byte* at, MessageKind kind, Code code, std::uint64_t bytes,
               std::uint32_t flags = 0) {
  wire::StoreLittle(at, static_cast<std::uint16_t>(kind));
  wire::StoreLittle(at + 2, static_cast<std::uint16_t>(code));
  wire::StoreLittle(at + 4, flags);
  wire::StoreLittle(at + 8, bytes);
}

struct Head {
  std::uint16_t kind = 0, code = 0;
  std::uint32_t flags = 0;
  std::uint64_t bytes = 0;
};

Result<Head> ReadHead(std::span<const std::byte> frame) {
  if (frame.size() < kHead) return Status::Error(Code::kProtocol, "a message without a head");
  const Head head{wire::LoadLittle<std::uint16_t>(frame.data()),
                  wire::LoadLittle<std::uint16_t>(frame.data() + 2),
                  wire::LoadLittle<std::uint32_t>(frame.data() + 4),
                  wire::LoadLittle<std::uint64_t>(frame.data() + 8)};
  const bool known = head.kind >= static_cast<std::uint16_t>(MessageKind::kConfigure) &&
                     head.kind <= static_cast<std::uint16_t>(MessageKind::kShareValues) &&
                     head.code <= static_cast<std::uint16_t>(Code::kInternal);
  const bool is_long = head.bytes > kInlineBytes && head.bytes <= kLargest;
  const bool inside =
      head.flags == 0 && head.bytes <= kInlineBytes && frame.size() == kHead + head.bytes;
  const bool behind = head.flags == 0 && is_long && frame.size() == kHead;
  const bool shared = head.flags == kShared && is_long && frame.size() == kSharedHead;
  if (!known || !(inside || behind || shared)) {
    return Status::Error(Code::kProtocol, "a message that neither a trainer nor a server sends");
  }
  return head;
}

bool Contains(std::span<const std::byte> area, std::span<const std::byte> part) {
  return !area.empty() && std::less_equal<>()(area.data(), part.data()) &&
         std::less_equal<>()(part.data() + part.size(), area.data() + area.size());
}

// Sends one message, each part as soon as it is written.
class Outgoing {
 public:
  Outgoing(net::Connection& connection, MessageKind kind, std::span<const std::byte> payload,
           std::optional<std::uint64_t> shared_at)
      : connection_(connection),
        payload_(payload),
        is_inside_(payload.size() <= kInlineBytes),
        is_shared_(shared_at.has_value()),
        first_(is_shared_ ? kSharedHead : kHead + (is_inside_ ? payload.size() : 0)) {
    WriteHead(first_.data(), kind, Code::kOk, payload.size(), is_shared_ ? kShared : 0);
    if (is_shared_) wire::StoreLittle(first_.data() + kHead, *shared_at);
  }

  void Written(std::size_t bytes) {
    if (!begun() && bytes >= BytesWithHead()) Begin();
    while (begun() && done_ < payload_.size()) {
      const std::size_t end =
          std::min(done_ + (is_shared_ ? kSharedStep : kPiece), payload_.size());
      if (bytes < end) return;
      SendFrame(is_shared_ ? std::span<const std::byte>() : payload_.subspan(done_, end - done_));
      done_ = end;
    }
  }

  bool begun() const { return !frames_.empty(); }
  std::deque<net::Completion>& frames() { return frames_; }

 private:
  // What must be written before the head can be sent.
  std::size_t BytesWithHead() const {
    if (is_inside_) return payload_.size();
    return is_shared_ ? std::min(kSharedStep, payload_.size()) : 0;
  }
  void Begin() {
    if (is_inside_) std::ranges::copy(payload_, first_.begin() + kHead);
    SendFrame(first_);
    done_ = BytesWithHead();
  }
  void SendFrame(std::span<const std::byte> bytes) {
    connection_.Send(kFrame, kTag, bytes, frames_.emplace_back().ForSend());
  }

  net::Connection& connection_;
  const std::span<const std::byte> payload_;
  const bool is_inside_, is_shared_;
  std::vector<std::byte> first_;
  std::deque<net::Completion> frames_;
  std::size_t done_ = 0;  // of the payload, sent or announced
};

}  // namespace

Channel::Channel(std::unique_ptr<net::Connection> connection) : connection_(std::move(connection)) {
  connection_->WhenClosed([closed = closed_](const net::Closed&) { *closed = true; });
}

Channel::~Channel() = default;

void Channel::Share(std::shared_ptr<const net::SharedMemory> memory, std::span<std::byte> area,
                    Sharing sharing) {
  memory_ = std::move(memory);
  if (sharing == Sharing::kOutgoing) {
    outgoing_ = area;
  } else {
    incoming_ = area;
    copies_incoming_ = sharing == Sharing::kIncomingCopied;
  }
}

std::span<std::byte> Channel::OutgoingArea(std::size_t bytes) const {
  if (bytes <= kInlineBytes || bytes > outgoing_.size()) return {};
  return outgoing_.first(bytes);
}

Status Channel::Send(MessageKind kind, std::span<const std::byte> payload, Deadline deadline) {
  return SendWritten(
      kind, payload,
      [&](const Written& written) {
        written(payload.size());
        return Status();
      },
      [deadline] { return deadline; });
}

Status Channel::SendWhileWritten(MessageKind kind, std::span<const std::byte> payload,
                                 const WritePayload& write, std::chrono::milliseconds patience) {
  return SendWritten(kind, payload, write, [patience] {
    return patience == kUnlimited ? kNoDeadline : std::chrono::steady_clock::now() + patience;
  });
}

// Asks for the deadline when everything is written.
Status Channel::SendWritten(MessageKind kind, std::span<const std::byte> payload,
                            const WritePayload& write, const std::function<Deadline()>& deadline) {
  const bool is_shared = payload.size() > kInlineBytes && Contains(outgoing_, payload);
  std::optional<std::uint64_t> shared_at;
  if (is_shared) shared_at = static_cast<std::uint64_t>(payload.data() - outgoing_.data());
  Outgoing outgoing(*connection_, kind, payload, shared_at);
  Status written;
  {
    const MutexLock lock(sending_);
    written = write([&](std::size_t bytes) { outgoing.Written(bytes); });
  }
  if (!written.ok() && outgoing.begun()) Close();
  const Status sent = Await(outgoing.frames(), deadline());
  return written.ok() ? sent : written;
}

void Channel::SendSmall(MessageKind kind, const Status& status,
                        std::span<const std::byte> payload) {
  const std::string text = status.ok() ? "" : status.message().substr(0, kLongestText);
  if (!status.ok()) payload = std::as_bytes(std::span(text));
  auto frame = std::make_shared<std::vector<std::byte>>(kHead + payload.size());
  WriteHead(frame->data(), kind, status.code(), payload.size());
  std::ranges::copy(payload, frame->begin() + kHead);
  const MutexLock lock(sending_);
  connection_->Send(kFrame, kTag, *frame, [frame](const Status&) {});
}

void Channel::SendKept(MessageKind kind, const std::shared_ptr<const void>& owner,
                       std::span<const std::byte> payload) {
  if (payload.size() <= kInlineBytes) return SendSmall(kind, {}, payload);
  auto head = std::make_shared<std::vector<std::byte>>(kHead);
  WriteHead(head->data(), kind, Code::kOk, payload.size());
  const MutexLock lock(sending_);
  connection_->Send(kFrame, kTag, *head, [head](const Status&) {});
  for (std::size_t at = 0; at < payload.size(); at += kPiece) {
    connection_->Send(kFrame, kTag, payload.subspan(at, std::min(kPiece, payload.size() - at)),
                      [owner](const Status&) {});
  }
}

Result<Message> Channel::Receive(Deadline deadline, const Arrival& arrival) {
  MakeRoom(kHead + kInlineBytes);
  payload_in_buffer_ = 0;
  std::deque<net::Completion> first(1);
  connection_->Receive({.type = kFrame, .tag = kTag, .exact = false},
                       Buffer().first(kHead + kInlineBytes), first[0].ForReceive());
  PACELINE_TRY(Await(first, deadline));
  const auto head = ReadHead(Buffer().first(first[0].bytes()));
  if (!head.ok()) {
    Close();
    return head.status();
  }
  Message message{
      .kind = static_cast<MessageKind>(head->kind), .status = {}, .payload = {}, .owner = {}};
  const Begun begun{message.kind, head->bytes, deadline};
  if (head->bytes <= kInlineBytes) {
    message.payload = Buffer().subspan(kHead, static_cast<std::size_t>(head->bytes));
  } else if (head->flags == kShared) {
    const auto offset = wire::LoadLittle<std::uint64_t>(Buffer().data() + kHead);
    PACELINE_TRY(ReceiveShared(begun, offset, arrival, message));
  } else {
    PACELINE_ASSIGN(const std::size_t here, ReceivePayload(begun, arrival));
    message.payload = Buffer().first(here);
    if (here == head->bytes) payload_in_buffer_ = here;
  }
  if (head->code != 0) {
    const auto* text = reinterpret_cast<const char*>(message.payload.data());
    message.status =
        Status::Error(static_cast<Code>(head->code),
                      std::string(text, std::min(message.payload.size(), kLongestText)));
    message.payload = {};
  }
  return message;
}

MessageBytes* Channel::PayloadMemory() {
  if (payload_in_buffer_ == 0 || payload_in_buffer_ % sizeof(std::uint64_t) != 0) return nullptr;
  buffer_.resize(payload_in_buffer_ / sizeof(std::uint64_t));
  payload_in_buffer_ = 0;
  return &buffer_;
}

void Channel::MakeRoom(std::size_t bytes) {
  const std::size_t words = (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  if (words > buffer_.size()) buffer_.resize(words);
}

// Takes memory as the bytes come, not as they are announced.
Result<std::size_t> Channel::ReceivePayload(const Begun& begun, const Arrival& arrival) {
  const auto bytes = static_cast<std::size_t>(begun.bytes);
  if (arrival.watch) arrival.watch(begun.kind, {}, bytes);
  std::size_t here = 0;
  for (std::size_t begin = 0; begin < bytes; begin += kAhead) {
    const std::size_t end = std::min(begin + kAhead, bytes);
    std::vector<std::span<std::byte>> places;
    for (std::size_t at = begin; at < end; at += kPiece) {
      const std::size_t count = std::min(kPiece, end - at);
      places.push_back(arrival.place ? arrival.place(at, count, bytes) : std::span<std::byte>());
      if (places.back().empty()) here = at + count;
    }
    MakeRoom(here);
    std::deque<net::Completion> received(places.size());
    for (std::size_t i = 0; i < received.size(); ++i) {
      const std::size_t at = begin + i * kPiece;
      const auto into =
          places[i].empty() ? Buffer().subspan(at, std::min(kPiece, end - at)) : places[i];
      connection_->Receive({.type = kFrame, .tag = kTag}, into, received[i].ForReceive());
    }
    const auto watch = [&](std::size_t pieces) {
      arrival.watch(begun.kind, Buffer().first(std::min(begin + pieces * kPiece, here)), bytes);
    };
    const std::size_t in_buffer = here <= begin ? 0 : (here - begin + kPiece - 1) / kPiece;
    const std::size_t watched = arrival.watch ? in_buffer : 0;
    PACELINE_TRY(Await(received, begun.deadline, watched, watch));
  }
  return here;
}

Status Channel::ReceiveShared(const Begun& begun, std::uint64_t offset, const Arrival& arrival,
                              Message& message) {
  if (offset % sizeof(std::uint64_t) != 0 || offset > incoming_.size() ||
      begun.bytes > incoming_.size() - offset) {
    Close();
    return Status::Error(Code::kProtocol, "a message outside of the shared memory");
  }
  const auto shared =
      incoming_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(begun.bytes));
  const bool in_place = !copies_incoming_ || (arrival.in_place && arrival.in_place(begun.kind));
  message.payload = shared;
  if (in_place) {
    message.owner = memory_;
  } else {
    MakeRoom(shared.size());
    message.payload = Buffer().first(shared.size());
    payload_in_buffer_ = shared.size();
  }
  if (arrival.watch) arrival.watch(begun.kind, {}, shared.size());
  // Piece by piece, so that whoever watches finds in the cache what was copied.
  const auto take = [&](std::size_t step) {
    const std::size_t end = std::min((step + 1) * kSharedStep, shared.size());
    for (std::size_t at = step * kSharedStep; at < end; at += kPiece) {
      const std::size_t count = std::min(kPiece, end - at);
      if (!in_place)
        kernel::CopyPart(Buffer().subspan(at, count), shared.subspan(at, count), shared.size());
      if (arrival.watch)
        arrival.watch(begun.kind, message.payload.first(at + count), shared.size());
    }
  };
  std::deque<net::Completion> steps((shared.size() - 1) / kSharedStep);
  for (net::Completion& step : steps) {
    connection_->Receive({.type = kFrame, .tag = kTag}, {}, step.ForReceive());
  }
  take(0);
  return Await(steps, begun.deadline, steps.size(), take);
}

// Memory is lent until the last completion, whatever happens.
Status Channel::Await(std::deque<net::Completion>& frames, Deadline deadline, std::size_t heard,
                      const std::function<void(std::size_t)>& each) {
  Status status;
  std::size_t ended_well = 0;
  for (net::Completion& frame : frames) {
    // They end in order: who need not hear of each is woken once.
    const bool is_heard = ended_well < heard;
    if (!is_heard && status.ok()) static_cast<void>(frames.back().Wait(deadline));
    Status one = frame.Wait(status.ok() ? deadline : kNoDeadline);
    if (one.code() == Code::kTimeout && status.ok()) {
      connection_->Abort({.code = Code::kTimeout, .text = "no answer in time"});
      frame.WaitWithoutDeadline();
    }
    if (status.ok()) status = one;
    if (status.ok() && is_heard) each(++ended_well);
  }
  return status;
}

void Channel::Close() {
  connection_->Abort({.code = Code::kAborted, .text = "closed by the other side"});
}

}  // namespace paceline::ps
