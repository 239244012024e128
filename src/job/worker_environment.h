#pragma once

#include <map>
#include <string>

#include "base/log.h"

namespace paceline::job {

// Environment in which paceline-worker is fastest, for whoever starts it: freed activations stay in
// the process and lie on huge pages instead of going back to the kernel after every step, which
// saves 3 to 8 % of a VGG16 step (docs/benchmarks.md). The C library reads these only at the start
// of a process. What the user has set already is left alone.
std::map<std::string, std::string> WorkerEnvironment(const GetEnv& getenv);

}  // namespace paceline::job
