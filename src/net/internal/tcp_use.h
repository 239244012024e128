#pragma once

#include "net/byte_stream.h"

namespace paceline::net::internal {

// What the kernel has counted for a socket; zero if it does not say.
StreamUse ReadTcpUse(int fd);

}  // namespace paceline::net::internal
