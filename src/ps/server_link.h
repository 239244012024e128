#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "net/secret.h"
#include "ps/channel.h"
#include "ps/memory_offer.h"
#include "ps/message_pool.h"
#include "ps/push_message.h"
#include "ps/push_space.h"
#include "ps/shared_floats.h"

namespace paceline::ps {

struct LinkOptions {
  net::Endpoint server;
  std::string name;  // "server 0 (127.0.0.1:7164)", for messages
  net::Secret secret = net::Secret::Open();
  std::uint64_t trainer = 0;
  std::vector<std::byte> job;                // EncodeJobSpec, said first on each connection
  std::chrono::milliseconds away{60'000};    // a server that is away for longer is an error
  std::size_t window = kMostUnacknowledged;  // pushes that may be unacknowledged
  std::size_t window_bytes = std::size_t{256} << 20;  // the same in bytes; one push always may
  bool shared_memory = true;                          // if the server is on this host
  std::size_t dense_bytes = 0;  // of this server: the memory has room for them
  // Then a pull that waits for other trainers is kAborted, and so is whatever waits for a push to
  // be acknowledged for longer than `stop_grace`.
  std::function<bool()> stopped = nullptr;
  std::chrono::milliseconds stop_grace{5'000};
};

// A trainer's way to one server: a connection for requests and one for pushes, each made anew when
// it breaks. Pushes that were not acknowledged are sent again, in order; the server knows those
// that it has. A server that comes back without something that it has acknowledged is an error for
// good, kBadCheckpoint. Thread-safe.
class ServerLink {
 public:
  // Returns when the server has accepted the job.
  static Result<std::unique_ptr<ServerLink>> Connect(net::Loop& loop, const LinkOptions& options);
  ~ServerLink();
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  // Whether the server had dense values when the link was made.
  bool initialised() const { return initialised_; }

  // The server's dense values, if it shares them: of the connection on which the last answer came,
  // for the thread that asks. Null: it does not.
  const FloatsReader* values() const { return values_ ? &*values_ : nullptr; }

  // Sends a request, to be followed by one Await(): requests to several servers run beside each
  // other. Does not wait until it is sent, so whoever asks may compute before it wants the answer.
  // `use` gets the answer's payload.
  Status Ask(MessageKind kind, std::span<const std::byte> request);
  // `arrival` sees it arrive; more than once if the server goes away meanwhile.
  Status Await(const std::function<Status(std::span<const std::byte>)>& use,
               const Arrival& arrival = {});

  // Queues a push; waits while the window, or the memory for pushes, is full.
  Status Push(const ps::Push& push);
  // The same in parts, while the floats that follow are still computed. After BeginPush(), which
  // waits as Push() does, either EndPush() with all the floats that were announced, or
  // CancelPush(): then nothing was pushed. Other pushes wait in between.
  Status BeginPush(const ps::Push& push, std::size_t dense_floats);
  void AppendDense(std::span<const float> floats);
  Status EndPush();
  void CancelPush();
  Status Flush();
  // Batches of this lease that the server has acknowledged; 0 unless it was the newest.
  std::uint64_t Acknowledged(std::uint64_t lease);

 private:
  // How far a push is written; guarded by `mutex_`.
  struct Writing {
    std::size_t bytes = 0;
    bool cancelled = false;
  };
  struct Outstanding {
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;  // of the bytes: a vector, or `memory_`
    std::uint64_t lease = 0, batch = 0;
    std::shared_ptr<Writing> writing;
  };
  // The push between BeginPush() and its end.
  struct OpenPush {
    Outstanding push;
    PushEncoder encoder;
    std::size_t announced = 0;  // bytes; 0: nobody knows of it
  };

  ServerLink(net::Loop& loop, const LinkOptions& options) : loop_(loop), options_(options) {}
  struct Opened {
    std::shared_ptr<Channel> channel;
    bool initialised = false;
    std::shared_ptr<net::SharedMemory> memory;  // null: none
    std::optional<FloatsReader> values;         // with `memory` for answers
  };
  // Whether the same call may succeed once the server is back.
  static bool MayComeBack(const Status& status);
  Result<Opened> Open(MemoryUse use);
  Result<Opened> Introduce(std::unique_ptr<net::Connection> connection, MemoryUse use,
                           Deadline deadline) const;
  Status MapValues(Opened& opened, Deadline deadline) const;
  void UseForRequests(Opened opened);
  std::size_t MemoryBytes(MemoryUse use) const;
  Status CheckNothingLost(const Opened& opened, bool had_values, Deadline deadline);
  Status ReopenAndAsk();
  void SendAsked();
  void RunPushes(const std::stop_token& stop);
  void SendPushes(Channel& channel, const std::stop_token& stop);
  void ReceiveAcks(Channel& channel);
  Status OnAck(const Message& message);
  void Break(const Status& why, bool for_good);
  Result<Outstanding> AwaitRoom(std::size_t bytes);
  // Whoever sends may send what is written.
  void Announce();
  void LetOthersPush() PACELINE_REQUIRES(mutex_);
  // Returns when more than `before` is written, with how much. kAborted when it was cancelled.
  Result<std::size_t> AwaitWritten(const Outstanding& push, std::size_t before);
  bool Full() const PACELINE_REQUIRES(mutex_);
  // Until another push is acknowledged.
  Status AwaitAck() PACELINE_REQUIRES(mutex_);
  // Bytes for a push; empty while there is no room.
  Outstanding TakeRoom(std::size_t bytes) PACELINE_REQUIRES(mutex_);

  net::Loop& loop_;
  const LinkOptions options_;
  bool initialised_ = false;

  // Of the thread that asks.
  std::shared_ptr<Channel> requests_;
  std::optional<FloatsReader> values_;
  MessageKind asked_ = MessageKind::kPull;
  SharedMessage asked_again_;  // what to send when the server comes back
  std::size_t asked_bytes_ = 0;
  bool unanswered_ = false;  // nobody has taken the answer

  std::optional<OpenPush> open_;  // of the thread that has set `pushing_`

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool pushing_ PACELINE_GUARDED_BY(mutex_) = false;  // one push after the other is written
  std::deque<Outstanding> outstanding_ PACELINE_GUARDED_BY(mutex_);
  std::size_t sent_ PACELINE_GUARDED_BY(mutex_) = 0;  // of them, on this connection
  std::size_t outstanding_bytes_ PACELINE_GUARDED_BY(mutex_) = 0;
  std::uint64_t acks_ PACELINE_GUARDED_BY(mutex_) = 0;
  bool had_values_ PACELINE_GUARDED_BY(mutex_) = false;  // the server, as far as is known
  // Whatever a server loses, the newest is part of it.
  struct {
    std::uint64_t lease = 0, batches = 0;
  } acknowledged_ PACELINE_GUARDED_BY(mutex_);
  bool broken_ PACELINE_GUARDED_BY(mutex_) = false;  // this connection
  Status failure_ PACELINE_GUARDED_BY(mutex_);       // for good
  std::shared_ptr<Channel> pushes_ PACELINE_GUARDED_BY(mutex_);
  // For pushes, shared with the server if it is on this host. Of this connection: pushes that wait
  // in the memory of an earlier one stay there and are sent.
  std::shared_ptr<net::SharedMemory> memory_ PACELINE_GUARDED_BY(mutex_);
  PushSpace space_ PACELINE_GUARDED_BY(mutex_);
  std::stop_source stop_;  // ends attempts to connect
  std::jthread thread_;    // last: starts when everything else is ready
};

}  // namespace paceline::ps
