#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
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
  kShareValues = 8,  // nothing; answered with a MemoryOffer, or with nothing
};

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

struct Message {
  MessageKind kind = MessageKind::kConfigure;
  Status status;                       // of an answer; an error has no payload
  std::span<const std::byte> payload;  // until the next Receive(); address divisible by 8
  std::shared_ptr<const void> owner;   // of memory that the other side can write and where the
                                       // payload lies; null: it lies in the channel's own
};

// What memory is for that both sides of a channel have mapped.
enum class Sharing {
  kOutgoing,
  kIncomingInPlace,  // payloads are used where they lie: the other side is trusted not to change
                     // them meanwhile
  kIncomingCopied,   // payloads are copied before anybody looks at them, unless Arrival says so
};

// Payloads up to this length always travel in the frame of the head.
inline constexpr std::size_t kInlineBytes = std::size_t{64} << 10;
// Of a longer one in shared memory the other side hears every so many bytes.
inline constexpr std::size_t kSharedStep = std::size_t{4} << 20;

// Says that the first `bytes` of a payload are written: rising numbers, the last is its length.
using Written = std::function<void(std::size_t bytes)>;
// Writes a payload while it is sent.
using WritePayload = std::function<Status(const Written&)>;
// Sees a payload longer than kInlineBytes arrive: first nothing of it, then more with each call, at
// an address that may change. `bytes` is how long it will be.
using WatchPayload =
    std::function<void(MessageKind kind, std::span<const std::byte> so_far, std::size_t bytes)>;
// Where `count` bytes of a payload of `bytes`, from byte `begin` on, are received to; nothing: the
// channel's own memory. From the first that go elsewhere, all do, and Message::payload ends there.
using PlacePayload =
    std::function<std::span<std::byte>(std::size_t begin, std::size_t count, std::size_t bytes)>;
// Whether a payload in shared memory is used where it lies.
using UseInPlace = std::function<bool(MessageKind kind)>;

// What a receiver does with a payload longer than kInlineBytes while it arrives.
struct Arrival {
  WatchPayload watch = nullptr;   // not called for what is placed elsewhere
  PlacePayload place = nullptr;   // of one that is not in shared memory
  UseInPlace in_place = nullptr;  // with Sharing::kIncomingCopied
};

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
  // The same with a payload that is written meanwhile, so that the other side is busy with its
  // beginning. An error of `write` is returned: nothing was sent if it had written nothing, else
  // the channel is closed. Other messages wait. `patience` begins when everything is written.
  static constexpr std::chrono::milliseconds kUnlimited = std::chrono::milliseconds::max();
  Status SendWhileWritten(MessageKind kind, std::span<const std::byte> payload,
                          const WritePayload& write,
                          std::chrono::milliseconds patience = kUnlimited);
  // For few bytes; does not wait until they are sent.
  void SendSmall(MessageKind kind, const Status& status, std::span<const std::byte> payload);
  // For any length; does not wait either. `payload` lies in what `owner` keeps.
  void SendKept(MessageKind kind, const std::shared_ptr<const void>& owner,
                std::span<const std::byte> payload);

  // kProtocol for what Send() cannot have sent.
  Result<Message> Receive(Deadline deadline = kNoDeadline, const Arrival& arrival = {});
  // Memory that begins with the payload of the message that was received last and is as long, if it
  // was a long one: else null. It may be exchanged for other memory.
  MessageBytes* PayloadMemory();
  // Whoever waits, now or later, gets kAborted.
  void Close();
  bool closed() const { return closed_->load(); }

 private:
  Status SendWritten(MessageKind kind, std::span<const std::byte> payload,
                     const WritePayload& write, const std::function<Deadline()>& deadline);
  // Waits for all; tells `each`, after each of the first `heard`, how many have ended well so far.
  Status Await(std::deque<net::Completion>& frames, Deadline deadline, std::size_t heard = 0,
               const std::function<void(std::size_t)>& each = nullptr);
  // What of a message is known before its payload is.
  struct Begun {
    MessageKind kind;
    std::uint64_t bytes;
    Deadline deadline;
  };
  // Returns how many bytes of the payload are in the buffer.
  Result<std::size_t> ReceivePayload(const Begun& begun, const Arrival& arrival);
  Status ReceiveShared(const Begun& begun, std::uint64_t offset, const Arrival& arrival,
                       Message& message);
  void MakeRoom(std::size_t bytes);  // in the buffer
  std::span<std::byte> Buffer() { return std::as_writable_bytes(std::span(buffer_)); }

  std::unique_ptr<net::Connection> connection_;
  const std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
  Mutex sending_;
  MessageBytes buffer_;                // of the receiver
  std::size_t payload_in_buffer_ = 0;  // bytes of a long one
  std::shared_ptr<const net::SharedMemory> memory_;
  std::span<std::byte> outgoing_;
  std::span<const std::byte> incoming_;
  bool copies_incoming_ = false;
};

}  // namespace paceline::ps
