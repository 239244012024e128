#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_writer.h"

namespace paceline::job {

// What this machine is, for provenance and for `paceline doctor`. Unknown texts are empty,
// unknown numbers 0.
struct Machine {
  std::string cpu_model;
  std::vector<std::string> cpu_flags;  // of the first CPU, as the kernel names them
  int cores = 0;                       // that this process may use (affinity and cgroup quota)
  int cores_online = 0;
  std::int64_t memory_bytes = 0;            // total
  std::int64_t memory_available_bytes = 0;  // without swapping
  std::string os;                           // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;                       // "Linux 6.1.0 x86_64"
  std::string governor;                     // CPU frequency governor
  double load_average = 0;                  // 1 minute
  bool swap_on = false;

  bool HasFlag(const std::string& flag) const;
  JsonObject Json() const;  // fields as above; cpu_flags as one text
};

Machine ReadMachine();

// The same from the files below `root` ("" is the machine itself), so that tests can make one up.
// Leaves out what is not in files: the kernel's version.
Machine ReadMachineBelow(const std::string& root, int affinity_cores);

}  // namespace paceline::job
