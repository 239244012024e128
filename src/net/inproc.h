#pragma once

#include <memory>
#include <utility>

#include "net/byte_stream.h"
#include "net/loop.h"

namespace paceline::net {

// Two ends of a stream inside one process and on one loop: no socket, no kernel, and the same order
// of events every time.
std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>> MakeInprocPair(Loop& loop);

}  // namespace paceline::net
