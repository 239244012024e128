#pragma once

#include <map>
#include <string>

#include "base/log.h"

namespace paceline::job {

// Environment in which paceline-worker is fastest, for whoever starts it. Freed activations stay in
// the process and lie on huge pages instead of going back to the kernel after every step: 3 to 8 %
// of a VGG16 step. Waiting threads spin briefly, then sleep: on a busy machine a thread that spins
// for long keeps the one it waits for off the CPU. docs/benchmarks.md has the figures. The
// libraries read these variables only at the start of a process. What the user has set already is
// left alone.
std::map<std::string, std::string> WorkerEnvironment(const GetEnv& getenv);

}  // namespace paceline::job
