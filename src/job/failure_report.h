#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/subprocess.h"

namespace paceline::job {

// How one rank failed, as the launcher saw it.
struct RankFailure {
  Rank rank;
  std::uint64_t local_rank = 0;
  std::string host;
  pid_t pid = 0;
  std::int64_t unix_seconds = 0;  // when it was seen
  ExitState state;
  std::string error_line;      // what it said last on stderr
  bool out_of_memory = false;  // the kernel has killed processes of this control group
  bool asked_to_stop = false;  // the launcher had sent it SIGTERM or SIGINT before
  bool killed = false;         // the launcher had sent it SIGKILL before
};

enum class FailureKind {
  kOwn,          // it failed for a reason of its own
  kConsequence,  // it lost a peer, or gave up for now (exit code 75)
  kStopped,      // it ended by the signal that the launcher sent
};

FailureKind Classify(const RankFailure& failure);

// The rank that "lost rank 3" or "rank 3 ... lost" speaks of.
std::optional<Rank> LostRank(std::string_view error_line);

// Index of the failure that explains the others: the first in time of the best kind. `failures` is
// in the order of observation and not empty.
std::size_t FindRootCause(std::span<const RankFailure> failures);

// What a shell would say: the exit code, or 128 + the signal.
int ShellExitCode(const ExitState& state);

// "SIGKILL"; "signal 99" when it has no name.
std::string SignalName(int signal);

// The block that ends a failed launch; the root cause first, then other failures. `failures` as
// above.
std::string RenderFailures(std::string_view program, std::span<const RankFailure> failures);

}  // namespace paceline::job
