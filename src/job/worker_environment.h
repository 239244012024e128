#pragma once

#include <map>
#include <string>

#include "base/log.h"

namespace paceline::job {

enum class WorkerHost { kThis, kOther };

// Environment in which paceline-worker is fastest, for whoever starts it. Freed activations stay in
// the process and lie on huge pages instead of going back to the kernel after every step: 3 to 8 %
// of a VGG16 step. Waiting threads spin briefly, then sleep: on a busy machine a thread that spins
// for long keeps the one it waits for off the CPU. OpenBLAS 0.3.21 takes kernels for SSE3, several
// times as slow, on CPUs newer than itself: on this machine it is told those of AVX-512 if the CPU
// has that; what another host has is not known. docs/benchmarks.md has the figures. The libraries
// read these variables only at the start of a process. What the user has set already is left alone.
std::map<std::string, std::string> WorkerEnvironment(const GetEnv& getenv,
                                                     WorkerHost host = WorkerHost::kThis);

}  // namespace paceline::job
