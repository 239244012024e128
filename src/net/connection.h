#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "net/byte_stream.h"
#include "net/loop.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace paceline::net {

// What this side knows about the other before a byte has arrived.
struct ConnectionOptions {
  std::uint64_t cluster = 0;
  Generation generation;
  std::string peer = "peer";                    // for messages: "rank 3 (host, 10.0.0.1:4321)"
  std::uint64_t rank = wire::Failure::kNobody;  // blamed when the connection breaks
};

// The frame that a receiver is waiting for. Anything else means that the two sides have diverged
// and closes the connection.
struct Expected {
  wire::FrameType type = wire::FrameType::kData;
  std::uint64_t tag = 0;
  bool exact = true;  // the payload fills the buffer; else it may be shorter
};

// How a connection ended.
struct Closed {
  Status status;
  std::uint64_t blamed = wire::Failure::kNobody;  // the rank that is the cause
  bool polite = false;                            // the peer said good-bye
};

// Frames over a byte stream, in order in both directions, checked by sequence number, cluster,
// generation and checksum. Receives are answered in the order in which they were posted; while none
// is posted a frame waits in the stream, which holds up the sender. Thread-safe; callbacks come on
// the loop, exactly once each, also after Close. The destructor closes without a word.
class Connection {
 public:
  using Sent = std::function<void(const Status&)>;
  using Received = std::function<void(const Status&, std::size_t bytes)>;
  using OnClosed = std::function<void(const Closed&)>;

  Connection(Loop& loop, std::unique_ptr<ByteStream> stream, const ConnectionOptions& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // As the destructor, but nothing that arrived before is handed out any more. On the loop; errors
  // come before it returns.
  void CloseOnLoop();

  // `payload` is lent until `done`.
  void Send(wire::FrameType type, std::uint64_t tag, std::span<const std::byte> payload, Sent done);
  void Receive(const Expected& expected, std::span<std::byte> into, Received done);

  // Called once when the connection ends for whatever reason, at once if it has.
  void WhenClosed(OnClosed on_closed);

  // Tells the peer why (best effort, bounded in time) and closes.
  void Abort(const wire::Failure& why);
  // Says good-bye after everything queued, and closes.
  void Leave();

  // From now on the peer is known better.
  void SetPeer(const std::string& name, std::uint64_t rank);
  std::uint64_t bytes_sent() const;
  std::uint64_t frames_sent() const;
  // Asks the loop: for reports, not for every step.
  StreamUse use() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// Waits for one callback. Thread-safe; must outlive the callback.
class Completion {
 public:
  Connection::Sent ForSend() {
    return [this](const Status& status) { Finish(status, 0); };
  }
  Connection::Received ForReceive() {
    return [this](const Status& status, std::size_t bytes) { Finish(status, bytes); };
  }

  // kTimeout at the deadline: the operation is still outstanding then.
  Status Wait(std::chrono::steady_clock::time_point deadline);
  void WaitWithoutDeadline();  // after the connection was closed: the callback is certain
  std::size_t bytes();
  void Reset();

 private:
  void Finish(const Status& status, std::size_t bytes);

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool done_ PACELINE_GUARDED_BY(mutex_) = false;
  Status status_ PACELINE_GUARDED_BY(mutex_);
  std::size_t bytes_ PACELINE_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::net
