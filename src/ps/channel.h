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
};

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

struct Message {
  MessageKind kind = MessageKind::kConfigure;
  Status status;                       // of an answer; an error has no payload
  std::span<const std::byte> payload;  // until the next Receive(); address divisible by 8
};

// Messages of any length over a connection, cut into frames: docs/wire.md. One thread receives;
// any may send, one message after the other.
class Channel {
 public:
  explicit Channel(std::unique_ptr<net::Connection> connection);
  ~Channel();  // closes without a word
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Returns when the payload is free again. After a deadline, here and below, the channel is
  // closed: kTimeout.
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
  std::span<std::byte> Buffer() { return std::as_writable_bytes(std::span(buffer_)); }

  std::unique_ptr<net::Connection> connection_;
  const std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
  Mutex sending_;
  MessageBytes buffer_;  // of the receiver
};

}  // namespace paceline::ps
