#include "support/strangers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string_view>

#include "support/processes.h"
#include "wire/frame.h"

namespace paceline::testing {

namespace {

UniqueFd ConnectTo(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return fd;
}

}  // namespace

void Strangers::Bother(pid_t pid, int slow) {
  const auto huge = wire::EncodeHeader({.type = wire::FrameType::kHello, .length = 0xFFFFFFFF});
  constexpr std::string_view kHttp =
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n";
  for (const std::uint16_t port : ListeningPorts(pid)) {
    for (int i = 0; i < slow; ++i) {
      slow_.push_back(ConnectTo(port));
      ::send(slow_.back().get(), "P", 1, MSG_NOSIGNAL);
    }
    const UniqueFd garbage = ConnectTo(port), length = ConnectTo(port);
    ::send(garbage.get(), kHttp.data(), kHttp.size(), MSG_NOSIGNAL);
    ::send(length.get(), huge.data(), huge.size(), MSG_NOSIGNAL);
  }
}

}  // namespace paceline::testing
