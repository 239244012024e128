#include "net/internal/tcp_use.h"

#include <sys/socket.h>
// Not <netinet/tcp.h>, whose structure of the same name is older and shorter; hence this file.
#include <linux/tcp.h>
#include <netinet/in.h>

namespace paceline::net::internal {

StreamUse ReadTcpUse(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {static_cast<double>(info.tcpi_busy_time) / 1e6, info.tcpi_bytes_acked};
}

}  // namespace paceline::net::internal
