#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "collective/engine.h"

namespace paceline::train {

struct StepServerOptions {
  std::string model = "vgg16";
  std::int64_t batch = 128;  // samples of this worker in one step
  std::int64_t threads = 1;
  std::uint64_t seed = 1;
  // The group whose steps it takes part in, one shard for each worker; null: it trains alone.
  collective::Engine* engine = nullptr;
};

// Our side of the benchmark's line protocol (bench/peers/README.md): real training steps on the
// synthetic set, as many as the harness asks for on `in`, timed by ourselves, answered on `out`.
// In a group all workers must be asked for the same steps; kInternal at the end when their
// parameters differ.
Status ServeSteps(const StepServerOptions& options, const Clock& clock, std::istream& in,
                  std::ostream& out);

}  // namespace paceline::train
