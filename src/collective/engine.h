#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algo/shard_layout.h"
#include "base/ids.h"
#include "base/status.h"

namespace paceline::collective {

class IdleCores;

// Bytes that an engine handed to the network, frame headers included, and the number of frames.
// Zero for engines that do not know.
struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t frames_sent = 0;
};

// Collective operations of one group of ranks, blocking. Every rank calls the same operations in
// the same order with the same sizes. The first failure is final: the group is then in an unknown
// state, and this and every later call returns the cause until the engine is made anew. Deadlines
// are those that the engine was made with (kTimeout); a dead peer gives kPeerLost and names the
// rank. Thread-compatible, except for Abort().
class Engine {
 public:
  virtual ~Engine() = default;
  virtual const char* name() const = 0;  // "native", "gloo", "mpi"
  virtual Rank rank() const = 0;
  virtual std::uint64_t world() const = 0;
  virtual const algo::ShardLayout& layout() const = 0;
  // What every call returns from now on; ok until then. Thread-safe.
  virtual Status failure() const = 0;
  // False where all ranks share memory: moving data is then work of the processors that compute,
  // and beside computation it only gets into its way. The same on every rank.
  virtual bool MovesDataBesideComputation() const { return true; }

  // Zeroed memory from which this engine reduces without a copy (shared with the ranks of the
  // same host where it can be); lives as long as the engine. A collective operation: every rank
  // asks for the same sizes in the same order. Any other memory works too.
  virtual Result<std::span<float>> Allocate(std::size_t floats) = 0;

  // Zeroed memory that all ranks have in common: what one writes before an operation of the group
  // the others see after it. Lives as long as the engine. Empty where there is none: ranks on
  // several hosts, other engines, or more than the engine was made for. A collective operation.
  virtual Result<std::span<float>> AllocateCommon(std::size_t /*floats*/) {
    return std::span<float>();
  }

  // `parts[i]` holds the sum over the shards of layout().NodesOf(rank())[i]; all of one length.
  // Afterwards parts[0] holds the sum over all shards, the same bits on every rank; the other
  // parts are undefined.
  virtual Status AllReduce(std::span<const std::span<float>> parts) = 0;

  // As AllReduce, but only SliceOf(length, world, rank) of parts[0] is defined afterwards.
  virtual Status ReduceScatter(std::span<const std::span<float>> parts) = 0;

  // `blocks` is world() blocks of one size; each rank has filled block rank(). Afterwards all
  // blocks are filled on every rank.
  virtual Status AllGather(std::span<std::byte> blocks) = 0;

  // Every rank gets the root's bytes.
  virtual Status Broadcast(std::span<std::byte> bytes, Rank root) = 0;

  // Returns when every rank has called it.
  virtual Status Barrier() = 0;

  // Fails the operation in progress and all later ones with `why`. Thread-safe, returns at once.
  virtual void Abort(const Status& why) = 0;

  // Null where ranks do not share a host, cannot tell, or are more than the host has cores. Lives
  // as long as the engine.
  virtual IdleCores* idle_cores() { return nullptr; }

  virtual Traffic traffic() const { return {}; }

  // The connections from here to the other ranks; those of which nothing is known are missing. For
  // reports, not for every step. Thread-safe.
  struct Link {
    Rank to;
    double busy_seconds = 0;  // with data on its way, since the engine was made
    std::uint64_t bytes = 0;  // that have arrived
  };
  virtual std::vector<Link> Links() const { return {}; }
};

}  // namespace paceline::collective
