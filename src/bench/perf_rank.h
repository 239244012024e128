#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "bench/perf_case.h"
#include "bench/perf_channel.h"
#include "collective/engine.h"

namespace paceline::bench {

// One rank of a measurement. Every rank performs the same steps. Thread-compatible; borrows both.
class PerfRank {
 public:
  PerfRank(collective::Engine& engine, const Clock& clock) : engine_(engine), clock_(clock) {}

  // Warms up, meets all ranks at a barrier, repeats the operation in place, and checks one more
  // with fresh data that differ in every element and rank.
  Result<PerfSample> Measure(const PerfStep& step);

 private:
  Status Perform(PerfOp op, std::span<float> values);
  Result<std::int64_t> CountWrong(PerfOp op, std::span<float> values);

  collective::Engine& engine_;
  const Clock& clock_;
  std::map<std::size_t, std::span<float>> buffers_;  // by number of floats; the engine's memory
};

// Answers the driver until it says quit or goes away; the protocol is in docs/perf.md.
// `name` is what the driver calls this engine.
Status ServePerf(collective::Engine& engine, const std::string& name, const Clock& clock,
                 PerfChannel& channel);

}  // namespace paceline::bench
