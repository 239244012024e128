#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "net/byte_stream.h"
#include "net/loop.h"

namespace paceline::net {

// What goes wrong with what one end writes. A write is one frame.
struct StreamFaults {
  std::optional<std::uint64_t> cut_after_bytes;  // then both directions are closed
  std::optional<std::uint64_t> drop_write;       // this one (from 0) never arrives
  std::optional<std::uint64_t> swap_write;       // this one arrives after the next one
  std::optional<std::uint64_t> flip_bit_at;      // in the byte at this position of the stream
  std::chrono::nanoseconds delay{0};             // of every write
  std::chrono::nanoseconds jitter{0};            // plus up to this much, by `seed`
  std::uint64_t seed = 1;
};

// A stream that breaks as it is told to; otherwise the stream it wraps.
std::unique_ptr<ByteStream> MakeFaulty(Loop& loop, std::unique_ptr<ByteStream> inner,
                                       const StreamFaults& faults);

}  // namespace paceline::net
