#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paceline::job {

// Where something listens.
struct Endpoint {
  std::string host;  // name or address; an IPv6 address without its brackets
  std::uint16_t port = 0;

  // "host:port", "[::1]:port".
  std::string ToString() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

constexpr std::size_t kMaxHostBytes = 255;  // DNS's limit of a whole name

// A host name or an IPv4 address that is safe in a command line: letters, digits, '.', '-' and '_',
// and no '-' in front, which programs would take for an option.
bool IsHostName(std::string_view text);

// A host name or an address, IPv6 included, without brackets.
bool IsHost(std::string_view text);

// "host:port" or "[IPv6]:port" with a port of 1 to 65535.
Result<Endpoint> ParseEndpoint(std::string_view text);

}  // namespace paceline::job
