#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/log.h"
#include "base/status.h"

namespace paceline::job {

constexpr std::uint64_t kMaxWorld = 1 << 20;  // ranks; a typo is no reason to wait for a billion
constexpr std::uint16_t kDefaultCoordinatorPort = 29500;  // where a source names a host alone

// Which of how many processes this one is, as whoever started it says.
struct LaunchEnvironment {
  std::string source;  // "paceline", "torchrun", "slurm", ...: docs/launching.md lists them
  Rank rank;
  std::uint64_t world = 1;
  std::optional<std::uint64_t> local_rank;   // among the processes of this host
  std::optional<std::uint64_t> local_world;  // processes of this host
  std::string coordinator;                   // "host:port"; empty: none (MPI, or a world of one)
  std::uint64_t restarts = 0;                // how often the launcher has started this job again
  // More than one: `rank` and `world` count hosts (pods), and this many processes are to be started
  // on each; LocalProcess() gives them their place.
  std::uint64_t processes_per_node = 1;

  // "launch environment: torchrun, rank 1 of 4, coordinator 10.0.0.1:29501".
  std::string Describe() const;
};

// Finds out who started this process: our own variables first, then torchrun, PET_*, Open MPI,
// MPICH, Slurm, Horovod, Paddle, and an indexed job of Kubernetes. Nothing when nobody did.
// kInvalidArgument naming the variable when values are malformed or half of them are missing, so
// that a broken launch does not quietly become several trainings of one worker.
Result<std::optional<LaunchEnvironment>> RecognizeLaunch(const GetEnv& getenv);

// Process `local` (< node.processes_per_node) of a host: ranks of one host are neighbours.
LaunchEnvironment LocalProcess(const LaunchEnvironment& node, std::uint64_t local);

// PACELINE_RANK etc., for the environment of a process that is to be recognised as this one.
std::map<std::string, std::string> ToVariables(const LaunchEnvironment& launch);

}  // namespace paceline::job
