#include "net/endpoint.h"

#include <charconv>

#include <fmt/format.h>

namespace paceline::net {

std::string Endpoint::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Endpoint> ParseEndpoint(const std::string& text) {
  const auto bad = [&](const char* why) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("address '{}': {}; it looks like host:port", text, why));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad("no port");
  std::string host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return bad("an IPv6 address stands in brackets");
  }
  if (host.empty()) return bad("no host");
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || rest != end) return bad("the port is not 0 to 65535");
  return Endpoint{host, port};
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace paceline::net
