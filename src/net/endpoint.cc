#include "net/endpoint.h"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <memory>

#include <fmt/format.h>

#include "base/unique_fd.h"

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

std::string AddressTowards(const Endpoint& target) {
  constexpr char kNowhere[] = "127.0.0.1";
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(target.port);
  if (::getaddrinfo(target.host.c_str(), port.c_str(), &hints, &list) != 0) return kNowhere;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(list, &::freeaddrinfo);
  // Connecting a datagram socket only chooses a route.
  const UniqueFd socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage mine{};
  socklen_t length = sizeof(mine);
  std::array<char, NI_MAXHOST> text{};
  if (!socket.valid() || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&mine), length, text.data(),
                    static_cast<socklen_t>(text.size()), nullptr, 0, NI_NUMERICHOST) != 0) {
    return kNowhere;
  }
  return text.data();
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace paceline::net
