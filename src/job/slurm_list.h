#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::job {

// More than any machine has; what a short text can expand to is bounded before memory is taken.
constexpr std::size_t kMaxHosts = 65536;
constexpr std::uint64_t kMaxTasksPerHost = 65536;

// Slurm's compressed list of hosts (SLURM_JOB_NODELIST): "gnode[10,20,025-037],login1". Brackets
// may be followed by more text and more brackets ("r[0-1]n[1-4]-ib"); numbers keep the width of
// the first one of their range. In the order of the list, duplicates included.
Result<std::vector<std::string>> ExpandNodeList(std::string_view text);

// Slurm's tasks of each host (SLURM_TASKS_PER_NODE): "2(x3),1" is 2, 2, 2, 1.
Result<std::vector<std::uint64_t>> ExpandTaskList(std::string_view text);

}  // namespace paceline::job
