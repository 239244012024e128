#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/status.h"

namespace paceline::net {

// What a stream has done so far.
struct StreamUse {
  double busy_seconds = 0;  // with data on its way or waiting to be sent
  std::uint64_t bytes = 0;  // that have arrived at the other side
};

// An ordered, reliable stream of bytes in both directions: a TCP connection, an in-process pipe, a
// decorator that breaks either, later TLS. Loop-confined: every method is called on the loop, every
// callback comes on the loop exactly once and never inside the call, also after Close. Memory is
// lent until the callback. At most one read and one write at a time. The stream may be destroyed
// when no callback is outstanding.
class ByteStream {
 public:
  using Done = std::function<void(const Status&)>;
  // Two pieces of memory written one after the other: a header and its payload.
  using Pieces = std::array<std::span<const std::byte>, 2>;

  virtual ~ByteStream() = default;

  // Fills all of `into`. kNotFound when the peer closed before the first byte, kPeerLost when the
  // stream broke or ended in the middle.
  virtual void ReadOnLoop(std::span<std::byte> into, Done done) = 0;
  virtual void WriteOnLoop(const Pieces& pieces, Done done) = 0;
  // No more bytes will be written; the other direction goes on.
  virtual void ShutdownWriteOnLoop() = 0;
  // Outstanding callbacks come with kAborted.
  virtual void CloseOnLoop() = 0;
  // Zero where nobody knows.
  virtual StreamUse UseOnLoop() const { return {}; }
  // For messages: "10.0.0.1:4321".
  virtual std::string peer() const = 0;
};

}  // namespace paceline::net
