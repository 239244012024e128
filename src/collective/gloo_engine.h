#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algo/shard_layout.h"
#include "base/ids.h"
#include "base/status.h"
#include "collective/engine.h"

namespace paceline::collective {

// Gives every rank the blobs of all ranks, in order of rank. Collective.
using BlobExchange = std::function<Result<std::vector<std::string>>(const std::string& mine)>;

struct GlooOptions {
  Rank rank;
  algo::ShardLayout layout = algo::ShardLayout::Even(1, 1);
  std::string address = "127.0.0.1";  // to listen on; a numeric address of this host
  std::string interface;              // listen on this network interface instead, e.g. "eth0"
  std::chrono::milliseconds timeout{30'000};  // of connecting, and of each operation
  BlobExchange bootstrap;                     // not needed by a single rank
};

std::string GlooVersion();  // of the library

// Engine "gloo": the collectives of libgloo over TCP, one connection per pair of ranks. Connects
// to all ranks before it returns.
//
// What differs from the native engine:
// - A rank adds its own parts in the order of the fixed tree, but gloo adds across ranks along a
//   ring: sums may have other bits with another number of ranks. Every piece is summed by one rank
//   and then copied, so all ranks hold the same bits.
// - gloo has no reduce-scatter for any number of ranks and any length; this one exchanges slices
//   directly between all ranks over gloo's buffers.
// - Ranks that call with different sizes are not detected; they end in kTimeout or kInternal.
// - Connections are neither authenticated nor encrypted.
// The process ignores SIGPIPE from then on: gloo does not ask for errors instead of the signal.
// Abort() ends the call in flight at once and closes the connections, which the other ranks see as
// kPeerLost; it may take some 10 ms per connection (a tick of gloo's loop).
Result<std::unique_ptr<Engine>> MakeGlooEngine(const GlooOptions& options);

}  // namespace paceline::collective
