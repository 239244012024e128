#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "base/status.h"
#include "net/connection.h"
#include "net/handshake.h"
#include "net/loop.h"
#include "net/secret.h"
#include "net/tcp.h"

namespace paceline::net {

struct AcceptorOptions {
  Endpoint bind;  // loopback unless told otherwise
  Secret secret = Secret::Open();
  Identity self;
  std::size_t max_strangers = 64;  // connections that have not proved the secret yet
  std::chrono::milliseconds handshake_deadline{5000};
};

// Listens, lets every caller prove the secret, and hands out those that could. Strangers are few,
// get little time and can make this side take little memory; whatever they send, the others do not
// notice. Thread-safe.
class Acceptor {
 public:
  using OnPeer = std::function<void(std::unique_ptr<Connection>, const Identity& peer)>;

  // kUnauthenticated when others than this machine could connect and there is no secret. Callers
  // wait until Open().
  static Result<std::unique_ptr<Acceptor>> Listen(Loop& loop, const AcceptorOptions& options);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // From now on callers that belong to this job and generation are handed to `on_peer`, on the
  // loop.
  void Open(const HandshakeContext& context, OnPeer on_peer);

  Endpoint endpoint() const;
  // Callers turned away so far: wrong secret, garbage, too slow, too many.
  std::uint64_t refused() const;

 private:
  class Impl;
  explicit Acceptor(std::shared_ptr<Impl> impl, std::unique_ptr<Listener> listener);

  std::shared_ptr<Impl> impl_;
  std::unique_ptr<Listener> listener_;
};

struct ConnectOptions {
  Secret secret = Secret::Open();
  Identity self;
  HandshakeContext context;
  std::chrono::steady_clock::time_point deadline;
  std::stop_token stop;  // gives up early: kAborted
  bool once = false;     // one attempt: kNotFound when nobody listens there
};

// Connects and proves the secret. Tries again while nobody listens there, until the deadline:
// kTimeout. A refusal is final.
Result<std::unique_ptr<Connection>> ConnectTo(Loop& loop, const Endpoint& endpoint,
                                              const std::string& name,
                                              const ConnectOptions& options);

}  // namespace paceline::net
