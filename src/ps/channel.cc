#include "ps/channel.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "wire/endian.h"

namespace paceline::ps {

namespace {

constexpr auto kFrame = wire::FrameType::kData;
constexpr std::uint64_t kTag = 0x5350;  // "PS": a rank of a collective would not understand
constexpr std::size_t kHead = 16, kSharedHead = 24;
constexpr std::uint32_t kShared = 1;  // flag of a head: an offset into shared memory follows
constexpr std::size_t kPiece = std::size_t{1} << 20;  // stays in the cache for its checksum
constexpr std::size_t kAhead = 64 * kPiece;           // is asked for at once
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
                     head.kind <= static_cast<std::uint16_t>(MessageKind::kShareMemory) &&
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

}  // namespace

Channel::Channel(std::unique_ptr<net::Connection> connection)
    : connection_(std::move(connection)), buffer_((kHead + kInlineBytes) / sizeof(std::uint64_t)) {
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
  const bool is_inside = payload.size() <= kInlineBytes;
  const bool is_shared = !is_inside && Contains(outgoing_, payload);
  std::vector<std::byte> first(is_shared ? kSharedHead : kHead + (is_inside ? payload.size() : 0));
  WriteHead(first.data(), kind, Code::kOk, payload.size(), is_shared ? kShared : 0);
  if (is_inside) std::ranges::copy(payload, first.begin() + kHead);
  if (is_shared) {
    wire::StoreLittle(first.data() + kHead,
                      static_cast<std::uint64_t>(payload.data() - outgoing_.data()));
  }
  const bool is_behind = !is_inside && !is_shared;
  const std::size_t pieces = is_behind ? (payload.size() + kPiece - 1) / kPiece : 0;
  std::vector<net::Completion> sent(1 + pieces);
  {
    const MutexLock lock(sending_);
    connection_->Send(kFrame, kTag, first, sent[0].ForSend());
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t at = i * kPiece;
      connection_->Send(kFrame, kTag, payload.subspan(at, std::min(kPiece, payload.size() - at)),
                        sent[1 + i].ForSend());
    }
  }
  return Await(sent, deadline);
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

Result<Message> Channel::Receive(Deadline deadline) {
  std::vector<net::Completion> first(1);
  connection_->Receive({.type = kFrame, .tag = kTag, .exact = false},
                       Buffer().first(kHead + kInlineBytes), first[0].ForReceive());
  PACELINE_TRY(Await(first, deadline));
  const auto head = ReadHead(Buffer().first(first[0].bytes()));
  if (!head.ok()) {
    Close();
    return head.status();
  }
  Message message{.kind = static_cast<MessageKind>(head->kind), .status = {}, .payload = {}};
  if (head->bytes <= kInlineBytes) {
    message.payload = Buffer().subspan(kHead, static_cast<std::size_t>(head->bytes));
  } else if (head->flags == kShared) {
    const auto offset = wire::LoadLittle<std::uint64_t>(Buffer().data() + kHead);
    PACELINE_ASSIGN(message.payload, FindPayload(offset, head->bytes));
  } else {
    PACELINE_TRY(ReceivePayload(static_cast<std::size_t>(head->bytes), deadline));
    message.payload = Buffer().first(static_cast<std::size_t>(head->bytes));
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

// Takes memory as the bytes come, not as they are announced.
Status Channel::ReceivePayload(std::size_t bytes, Deadline deadline) {
  for (std::size_t begin = 0; begin < bytes; begin += kAhead) {
    const std::size_t end = std::min(begin + kAhead, bytes);
    const std::size_t words = (end + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    if (words > buffer_.size()) buffer_.resize(words);
    std::vector<net::Completion> received((end - begin + kPiece - 1) / kPiece);
    for (std::size_t i = 0; i < received.size(); ++i) {
      const std::size_t at = begin + i * kPiece;
      connection_->Receive({.type = kFrame, .tag = kTag},
                           Buffer().subspan(at, std::min(kPiece, end - at)),
                           received[i].ForReceive());
    }
    PACELINE_TRY(Await(received, deadline));
  }
  return {};
}

// In the shared memory. Where it is to be is the other side's claim.
Result<std::span<const std::byte>> Channel::FindPayload(std::uint64_t offset, std::uint64_t bytes) {
  if (offset % sizeof(std::uint64_t) != 0 || offset > incoming_.size() ||
      bytes > incoming_.size() - offset) {
    Close();
    return Status::Error(Code::kProtocol, "a message outside of the shared memory");
  }
  const auto payload =
      incoming_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
  if (!copies_incoming_) return payload;
  buffer_.resize(std::max(buffer_.size(),
                          (payload.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t)));
  std::memcpy(buffer_.data(), payload.data(), payload.size());
  return std::span<const std::byte>(Buffer().first(payload.size()));
}

// Memory is lent until the last completion, whatever happens.
Status Channel::Await(std::span<net::Completion> frames, Deadline deadline) {
  Status status;
  for (net::Completion& frame : frames) {
    Status one = frame.Wait(status.ok() ? deadline : kNoDeadline);
    if (one.code() == Code::kTimeout && status.ok()) {
      connection_->Abort({.code = Code::kTimeout, .text = "no answer in time"});
      frame.WaitWithoutDeadline();
    }
    if (status.ok()) status = one;
  }
  return status;
}

void Channel::Close() {
  connection_->Abort({.code = Code::kAborted, .text = "closed by the other side"});
}

}  // namespace paceline::ps
