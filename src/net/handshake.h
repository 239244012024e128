#pragma once

#include <functional>
#include <memory>

#include "base/ids.h"
#include "base/status.h"
#include "net/connection.h"
#include "net/secret.h"
#include "wire/messages.h"

namespace paceline::net {

// Who one side of a connection is.
struct Identity {
  wire::Role role = wire::Role::kWorker;
  Rank rank;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// What both sides of a handshake agree on beforehand; signed, so that a proof for one job or
// generation is none for another.
struct HandshakeContext {
  std::uint64_t cluster = 0;
  Generation generation;
};

// Both sides prove that they know the secret, each by signing the other's random number:
//   caller -> Hello (who, nonce)         callee -> Challenge (who, nonce, proof)
//   caller -> Proof                      callee -> Welcome
// kUnauthenticated when a proof is wrong. `done` comes once, on the loop; the connection must live
// until then. The side that refuses tells the other one why.
using HandshakeDone = std::function<void(const Status&, const Identity& peer)>;
void Call(Connection& connection, const Secret& secret, const Identity& self,
          const HandshakeContext& context, HandshakeDone done);
void Answer(Connection& connection, const Secret& secret, const Identity& self,
            const HandshakeContext& context, HandshakeDone done);

}  // namespace paceline::net
