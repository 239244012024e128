#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/status.h"
#include "net/byte_stream.h"
#include "net/endpoint.h"
#include "net/loop.h"

namespace paceline::net {

// Hands out streams that somebody opened. Made and destroyed on any thread but the loop's.
class Listener {
 public:
  virtual ~Listener() = default;  // stops listening; no callback comes afterwards
  // The address with the port that was really taken.
  virtual Endpoint endpoint() const = 0;
};

using OnStream = std::function<void(std::unique_ptr<ByteStream>)>;  // on the loop

// kUnavailable when the address cannot be bound.
Result<std::unique_ptr<Listener>> ListenTcp(Loop& loop, const Endpoint& endpoint,
                                            OnStream on_stream);

// One attempt. kNotFound: nobody listens there (yet); kUnavailable: no way there, or the name is
// unknown; kTimeout.
Result<std::unique_ptr<ByteStream>> ConnectTcp(Loop& loop, const Endpoint& endpoint,
                                               std::chrono::nanoseconds timeout);

}  // namespace paceline::net
