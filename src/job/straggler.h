#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace paceline::job {

// Who waited for whom: in a synchronous step everybody waits for the worker that is busy longest.
// Durations are each worker's own, so that clocks need not agree. Thread-compatible.
class StragglerReport {
 public:
  // `busy_seconds` by worker, of one step.
  void Add(std::span<const double> busy_seconds);

  // "rank 1 was last in 83 % of 120 steps; the others waited 12.3 ms a step for it on average".
  // Empty for one worker.
  std::string Line() const;
  // Seconds that the others waited for that worker, on average.
  double WorstWait() const;

 private:
  struct Worker {
    std::uint64_t last = 0;     // steps in which it was last
    double waited_seconds = 0;  // by the others, on average, in those steps
  };
  std::size_t Worst() const;

  std::uint64_t steps_ = 0;
  std::vector<Worker> workers_;
};

}  // namespace paceline::job
