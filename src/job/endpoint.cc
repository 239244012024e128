#include "job/endpoint.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace paceline::job {

namespace {

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Roughly: what may be in one, "fe80::1%eth0" included. The resolver decides.
bool LooksLikeIpv6(std::string_view text) {
  return text.size() >= 2 && text.size() <= kMaxHostBytes &&
         text.find(':') != std::string_view::npos &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == ':' || c == '.' || c == '%'; });
}

}  // namespace

std::string Endpoint::ToString() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

bool IsHostName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxHostBytes && text.front() != '-' &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '.' || c == '-' || c == '_'; });
}

bool IsHost(std::string_view text) { return IsHostName(text) || LooksLikeIpv6(text); }

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("'{}' is not HOST:PORT: {}", text, why));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("the port is missing");
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (!LooksLikeIpv6(host)) return wrong("the brackets hold no IPv6 address");
  } else if (!IsHostName(host)) {
    return wrong("no host name (an IPv6 address needs brackets)");
  }
  const std::string_view digits = text.substr(colon + 1);
  Endpoint endpoint{std::string(host), 0};
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() ||
      endpoint.port == 0) {
    return wrong("the port must be a number from 1 to 65535");
  }
  return endpoint;
}

}  // namespace paceline::job
