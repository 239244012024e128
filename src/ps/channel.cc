#include "ps/channel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "wire/endian.h"

namespace paceline::ps {

namespace {

constexpr auto kFrame = wire::FrameType::kData;
constexpr std::uint64_t kTag = 0x5350;  // "PS": a rank of a collective would not understand
constexpr std::size_t kHead = 16;
constexpr std::size_t kInline = std::size_t{64} << 10;  // as much travels in the first frame
constexpr std::size_t kPiece = std::size_t{1} << 20;    // stays in the cache for its checksum
constexpr std::size_t kAhead = 64 * kPiece;             // is asked for at once
constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;
constexpr std::size_t kLongestText = 4096;

void WriteHead(std::byte* at, MessageKind kind, Code code, std::uint64_t bytes) {
  wire::StoreLittle(at, static_cast<std::uint16_t>(kind));
  wire::StoreLittle(at + 2, static_cast<std::uint16_t>(code));
  wire::StoreLittle(at + 4, std::uint32_t{0});
  wire::StoreLittle(at + 8, bytes);
}

struct Head {
  std::uint16_t kind = 0, code = 0;
  std::uint64_t bytes = 0;
};

Result<Head> ReadHead(std::span<const std::byte> frame) {
  if (frame.size() < kHead) return Status::Error(Code::kProtocol, "a message without a head");
  const Head head{wire::LoadLittle<std::uint16_t>(frame.data()),
                  wire::LoadLittle<std::uint16_t>(frame.data() + 2),
                  wire::LoadLittle<std::uint64_t>(frame.data() + 8)};
  const bool known = head.kind >= static_cast<std::uint16_t>(MessageKind::kConfigure) &&
                     head.kind <= static_cast<std::uint16_t>(MessageKind::kPullChanged) &&
                     head.code <= static_cast<std::uint16_t>(Code::kInternal);
  const bool inside = frame.size() == kHead + head.bytes && head.bytes <= kInline;
  const bool behind = frame.size() == kHead && head.bytes > kInline && head.bytes <= kLargest;
  if (!known || !(inside || behind)) {
    return Status::Error(Code::kProtocol, "a message that neither a trainer nor a server sends");
  }
  return head;
}

}  // namespace

Channel::Channel(std::unique_ptr<net::Connection> connection)
    : connection_(std::move(connection)), buffer_((kHead + kInline) / sizeof(std::uint64_t)) {
  connection_->WhenClosed([closed = closed_](const net::Closed&) { *closed = true; });
}

Channel::~Channel() = default;

Status Channel::Send(MessageKind kind, std::span<const std::byte> payload, Deadline deadline) {
  const bool is_inside = payload.size() <= kInline;
  std::vector<std::byte> first(kHead + (is_inside ? payload.size() : 0));
  WriteHead(first.data(), kind, Code::kOk, payload.size());
  if (is_inside) std::ranges::copy(payload, first.begin() + kHead);
  const std::size_t pieces = is_inside ? 0 : (payload.size() + kPiece - 1) / kPiece;
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
                       Buffer().first(kHead + kInline), first[0].ForReceive());
  PACELINE_TRY(Await(first, deadline));
  const auto head = ReadHead(Buffer().first(first[0].bytes()));
  if (!head.ok()) {
    Close();
    return head.status();
  }
  Message message{.kind = static_cast<MessageKind>(head->kind), .status = {}, .payload = {}};
  if (head->bytes <= kInline) {
    message.payload = Buffer().subspan(kHead, static_cast<std::size_t>(head->bytes));
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
