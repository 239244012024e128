#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::job {

// What the workers of this host may use together.
struct AvailableCpus {
  std::vector<int> cpus;  // numbers of the CPUs in the affinity mask, ascending
  int cores = 1;          // of them at a time: fewer than `cpus` under a cgroup's quota
};

AvailableCpus ReadAvailableCpus();

enum class PlacementPolicy {
  kAuto,  // each worker on CPUs of its own, where there are enough
  kNone,  // the kernel decides
};

// "auto" or "none"; kInvalidArgument names --placement.
Result<PlacementPolicy> ParsePlacementPolicy(const std::string& text);

struct PlacementRequest {
  AvailableCpus available;
  std::uint64_t workers = 1;                // of this host
  std::optional<int> threads_per_worker{};  // nothing: cores divided evenly, at least 1
  PlacementPolicy policy = PlacementPolicy::kAuto;
};

struct WorkerPlacement {
  std::vector<int> cpus;  // empty: not pinned
  int threads = 1;        // the same for all: in synchronous training the slowest decides

  friend bool operator==(const WorkerPlacement&, const WorkerPlacement&) = default;
};

struct Placement {
  std::vector<WorkerPlacement> workers;
  std::string warning;  // "4 workers share 2 cores"; empty: none

  // One line for each worker: "worker 0: CPU 0, 1 thread".
  std::vector<std::string> Describe() const;
};

// Pure. A CPU belongs to one worker at most; CPUs that are left over go to the first workers, for
// their helper threads. Nobody is pinned when there are more threads than cores, nor under a quota,
// which does not say which CPUs are free.
Placement PlanPlacement(const PlacementRequest& request);

// "0-3,8" as the kernel writes sets of CPUs.
std::string RenderCpuSet(const std::vector<int>& cpus);

}  // namespace paceline::job
