#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"

namespace paceline::job {

struct HostSlots {
  std::string host;         // as ssh takes it: "node1" or "user@node1"
  std::uint64_t slots = 1;  // workers to start there

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

constexpr std::uint64_t kMaxSlots = 65536;  // of all hosts together

// A host file as Open MPI and Horovod have it: one "host", "host slots=4" or "host:4" a line, '#'
// starts a comment, blank lines do not count. A host that is named again gets more slots. Errors
// are kInvalidArgument and start with "name:line".
Result<std::vector<HostSlots>> ParseHostFile(std::string_view text, const std::string& name);
Result<std::vector<HostSlots>> ReadHostFile(const std::string& path);

// "node1:4,node2:4", as `horovodrun -H` takes it.
Result<std::vector<HostSlots>> ParseHostArgument(std::string_view text);

// The hosts that a batch system has given us: SLURM_JOB_NODELIST with SLURM_TASKS_PER_NODE, or the
// file PBS_NODEFILE, which has a line for each slot. Nothing outside of a batch job.
Result<std::optional<std::vector<HostSlots>>> HostsOfAllocation(const GetEnv& getenv);

}  // namespace paceline::job
