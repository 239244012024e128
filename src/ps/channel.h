#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/mutex.h"
#include "base/status.h"
#include "net/connection.h"
#include "net/shared_memory.h"
#include "ps/push_message.h"

namespace paceline::ps {

// What a message between a trainer and a server is about. Answers carry the kind of the request.
enum class MessageKind : std::uint16_t {
  kConfigure = 1,    // JobSpec; answered with one number: whether dense values are there
  kInitialise = 2,   // dense values of this server
  kNextBatch = 3,    // a lease; answered with a number
  kPush = 4,         // EncodePush; answered, when durable, with lease and batch
  kPull = 5,         // ps/protocol.h
  kPullChanged = 6,  // ps/protocol.h
  kShareMemory = 7,  // ps/memory_offer.h
};

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

struct Message {
  MessageKind kind = MessageKind::kConfigure;
  Status status;                       // of an answer; an error has no payload
  std::span<const std::byte> payload;  // until the next Receive(); address divisible by 8
};

// What memory is for that both sides of a channel have mapped.
enum class Sharing {
  kOutgoing,
  kIncomingInPlace,  // payloads are used where they lie: the other side is trusted not to change
                     // them meanwhile
  kIncomingCopied,   // payloads are copied before anybody looks at them
};

// Payloads up to this length always travel in the frame of the head.
inline constexpr std::size_t kInlineBytes = std::size_t{64} << 10;

// Messages of any length over a connection, cut into frames: docs/wire.md. One thread receives;
// any may send, one message after the other.
class Channel {
 public:
  explicit Channel(std::unique_ptr<net::Connection> connection);
  ~Channel();  // closes without a word
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // From now on payloads longer than kInlineBytes that lie in `area`, on a multiple of 8, are not
  // sent: the other side is told where they are, and they stay as they are until it is done with
  // them. Payloads elsewhere are sent as before. `area` is in `memory`; once, before other threads
  // use the channel.
  void Share(std::shared_ptr<const net::SharedMemory> memory, std::span<std::byte> area,
             Sharing sharing);
  // A place for the next outgoing payload that need not be sent; empty when there is none.
  std::span<std::byte> OutgoingArea(std::size_t bytes) const;

  // Returns when the payload is free again (unless it is shared). After a deadline, here and below,
  // the channel is closed: kTimeout.
  Status Send(MessageKind kind, std::span<const std::byte> payload,
              Deadline deadline = kNoDeadline);
  // For few bytes; does not wait until they are sent.
  void SendSmall(MessageKind kind, const Status& status, std::span<const std::byte> payload);

  // kProtocol for what Send() cannot have sent.
  Result<Message> Receive(Deadline deadline = kNoDeadline);
  // Whoever waits, now or later, gets kAborted.
  void Close();
  bool closed() const { return closed_->load(); }

 private:
  Status Await(std::span<net::Completion> frames, Deadline deadline);
  Status ReceivePayload(std::size_t bytes, Deadline deadline);
  Result<std::span<const std::byte>> FindPayload(std::uint64_t offset, std::uint64_t bytes);
  std::span<std::byte> Buffer() { return std::as_writable_bytes(std::span(buffer_)); }

  std::unique_ptr<net::Connection> connection_;
  const std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
  Mutex sending_;
  MessageBytes buffer_;  // of the receiver
  std::shared_ptr<const net::SharedMemory> memory_;
  std::span<std::byte> outgoing_;
  std::span<const std::byte> incoming_;
  bool copies_incoming_ = false;
};

}  // namespace paceline::ps
