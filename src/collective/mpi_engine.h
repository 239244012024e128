#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "algo/shard_layout.h"
#include "base/ids.h"
#include "base/status.h"
#include "collective/engine.h"

namespace paceline::collective {

// This process as one of those that mpirun started: who it is, and an exchange of blobs through MPI
// with which any other engine can find its peers. MPI exists once per process and cannot be started
// again after Finalize(). Thread-compatible.
class MpiBootstrap {
 public:
  // Initialises MPI unless that happened already. A process that mpirun did not start is alone.
  // kUnavailable when MPI cannot be called from more than one thread.
  static Result<MpiBootstrap> Start();

  Rank rank() const { return rank_; }
  std::uint64_t world() const { return world_; }

  // Gives every rank the blobs of all ranks, in order of rank. Collective.
  Result<std::vector<std::string>> Exchange(const std::string& mine) const;

  // Ends MPI once all engines are gone. Collective; without it mpirun reports a failure.
  static Status Finalize();

 private:
  MpiBootstrap(Rank rank, std::uint64_t world) : rank_(rank), world_(world) {}

  Rank rank_;
  std::uint64_t world_;
};

std::string MpiVersion();  // of the library, e.g. "Open MPI 4.1.4"

struct MpiOptions {
  algo::ShardLayout layout = algo::ShardLayout::Even(1, 1);  // its world is MPI's
  // MPI counts with int: longer operations become several calls. Smaller values exist for tests.
  std::size_t max_count = std::numeric_limits<int>::max();
};

// Engine "mpi": the collectives of MPI on a communicator of its own. Collective.
//
// What differs from the native engine:
// - A rank adds its own parts in the order of the fixed tree, but MPI chooses the order across
//   ranks: sums may have other bits with another number of ranks. All ranks hold the same bits with
//   the algorithms of Open MPI 4 (the standard only recommends it).
// - MPI has no deadline and cannot cancel. Abort() fails all later calls; a call in flight goes on
//   until its peers arrive. Whoever cannot wait must end the process: mpirun then ends all ranks.
// - Open MPI 4 ends the whole job when a rank dies; no kPeerLost is ever seen.
// - A waiting rank keeps its core busy. With more ranks than cores start them with
//   `mpirun --mca mpi_yield_when_idle 1`, which lets others run in between; it cannot be set here.
Result<std::unique_ptr<Engine>> MakeMpiEngine(const MpiOptions& options);

}  // namespace paceline::collective
