#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/subprocess.h"

namespace paceline::job {

// Starting it again would end the same way: its flags, data, disk or program are wrong.
bool IsHopeless(const ExitState& state);

// Why a process ended, by its exit code.
Code ReasonOf(const ExitState& state);

// Tells who of our children was killed by the kernel because memory ran out. Thread-compatible.
class OutOfMemoryWatch {
 public:
  // `cgroup_root`: below which /proc and /sys are; "" is the machine itself.
  explicit OutOfMemoryWatch(std::string cgroup_root);

  // The kernel counts whom it killed for memory in our control group. Several may have died before
  // we look: each explains one of them.
  bool Explains(const ExitState& state);

 private:
  std::string cgroup_root_;
  std::optional<std::int64_t> kills_;
};

// How long to wait before a process that died is started again. Whoever was killed from outside,
// however young, will do better next time; one that fails soon after its start may not: each time
// the pause doubles. Thread-compatible.
class RestartPause {
 public:
  std::chrono::milliseconds After(const ExitState& state, bool out_of_memory,
                                  std::chrono::nanoseconds lived);

 private:
  static constexpr std::chrono::milliseconds kFirst{200};
  std::chrono::milliseconds pause_ = kFirst;
};

// "was ended by SIGKILL: out of memory" or "ended with exit code 13".
std::string DescribeEnd(const ExitState& state, bool out_of_memory = false);

}  // namespace paceline::job
