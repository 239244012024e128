#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/log.h"
#include "base/status.h"

namespace paceline::job {

constexpr std::uint64_t kMaxWorld = 1 << 20;  // ranks; a typo is no reason to wait for a billion
constexpr std::uint16_t kDefaultCoordinatorPort = 29500;  // where a source names a host alone

constexpr std::size_t kMaxServers = 1000;

enum class LaunchRole {
  kTrainer,
  kServer,     // a parameter server
  kScheduler,  // DMLC's, which has nothing to do here
};

// Which of how many processes this one is, as whoever started it says.
struct LaunchEnvironment {
  std::string source;       // "paceline", "torchrun", "slurm", ...: docs/launching.md lists them
  Rank rank;                // of a server: its index
  std::uint64_t world = 1;  // processes with the same role
  std::optional<std::uint64_t> local_rank;   // among the processes of this host
  std::optional<std::uint64_t> local_world;  // processes of this host
  std::string coordinator;                   // "host:port"; empty: none (MPI, or a world of one)
  std::uint64_t restarts = 0;                // how often the launcher has started this job again
  // More than one: `rank` and `world` count hosts (pods), and this many processes are to be started
  // on each; LocalProcess() gives them their place.
  std::uint64_t processes_per_node = 1;
  LaunchRole role = LaunchRole::kTrainer;
  std::vector<std::string> servers;  // "host:port" of the parameter servers, by index; may be empty

  // "launch environment: torchrun, rank 1 of 4, coordinator 10.0.0.1:29501", or
  // "launch environment: tf-config, server 1 of 2 at 10.0.0.2:2222".
  std::string Describe() const;
};

// Finds out who started this process: our own variables first, then torchrun, PET_*, Open MPI,
// MPICH, Slurm, Horovod, Paddle, TF_CONFIG, DMLC, and an indexed job of Kubernetes. Nothing when
// nobody did. PACELINE_SERVERS=HOST:PORT,... names the parameter servers for every source.
// kInvalidArgument naming the variable when values are malformed or half of them are missing, so
// that a broken launch does not quietly become several trainings of one worker.
Result<std::optional<LaunchEnvironment>> RecognizeLaunch(const GetEnv& getenv);

// Process `local` (< node.processes_per_node) of a host: ranks of one host are neighbours.
LaunchEnvironment LocalProcess(const LaunchEnvironment& node, std::uint64_t local);

// PACELINE_RANK etc., for the environment of a process that is to be recognised as this one.
std::map<std::string, std::string> ToVariables(const LaunchEnvironment& launch);

}  // namespace paceline::job
