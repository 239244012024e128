#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace paceline::net {

// Where to listen or connect.
struct Endpoint {
  std::string host = "127.0.0.1";  // name or numeric address
  std::uint16_t port = 0;          // 0, to listen: any free one

  std::string ToString() const;  // "10.0.0.1:4321", "[::1]:4321"
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "host:port" or "[v6]:port"; kInvalidArgument quotes the text.
Result<Endpoint> ParseEndpoint(const std::string& text);

// Whether nobody outside this machine can reach an address. Names other than "localhost" count as
// reachable.
bool IsLoopback(const std::string& host);

// The numeric address of this machine from which packets to `target` leave; 127.0.0.1 when there
// is no way there. Nothing is sent.
std::string AddressTowards(const Endpoint& target);

}  // namespace paceline::net
