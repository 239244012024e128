#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "collective/gloo_engine.h"
#include "job/group.h"

namespace paceline::bench {

// Where one rank stands and how it meets the others.
struct PerfEngineOptions {
  std::string name;                   // "native", "native-tcp" (no shared memory), "gloo", "mpi"
  Rank rank;                          // under mpirun MPI knows better
  std::uint64_t world = 1;            // the same
  std::string address = "127.0.0.1";  // of this rank's host, to listen on
  std::filesystem::path meeting;      // folder where the ranks leave their addresses; not for MPI
  std::chrono::milliseconds timeout{60'000};
};

// Gives the library's version for the report, e.g. "0.5.0".
std::string PerfEngineVersion(const std::string& name);

// The engine to measure. kUnavailable: there is no such engine in this build.
Result<std::unique_ptr<job::Group>> MakePerfGroup(const PerfEngineOptions& options);

// An exchange through a folder that all ranks see; each blob becomes a file that appears complete.
// Needs a folder of its own for every exchange.
collective::BlobExchange FolderExchange(const std::filesystem::path& folder, Rank rank,
                                        std::uint64_t world, std::chrono::milliseconds timeout);

}  // namespace paceline::bench
