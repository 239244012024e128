#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/audit.h"

namespace paceline::job {

enum class Likeness {
  kEqual,          // the same steps with the same bits
  kPrefix,         // one has steps that the other lacks; those of both are equal
  kDifferent,      // a step has other bits
  kNotComparable,  // no hashes, or another plan
};

// Two runs, step by step.
struct RunComparison {
  std::string first_run;
  std::string second_run;
  Likeness likeness = Likeness::kNotComparable;
  std::string reason;                // why they are not comparable, or which one is longer
  std::uint64_t compared_steps = 0;  // steps with a hash in both
  std::uint64_t last_compared_step = 0;
  std::uint64_t first_last_step = 0;
  std::uint64_t second_last_step = 0;
  // Of the first step that differs:
  std::optional<std::uint64_t> step;
  std::string first_state, second_state;
  std::uint64_t first_line = 0, second_line = 0;
  std::vector<std::string> tensors;  // that differ, in the order of the model
  std::uint64_t equal_tensors = 0;
};

// Gives the hashes of the tensors of a step of a run.
using TensorReader = std::function<Result<TensorHashes>(const LoadedRun&, const LineageStep&)>;

// Reads them from the run's events.jsonl.
Result<TensorHashes> ReadTensors(const LoadedRun& run, const LineageStep& step);

// Compares the steps that count by their hash. Fails only where `read` does.
Result<RunComparison> CompareRuns(const LoadedRun& first, const LoadedRun& second,
                                  const TensorReader& read = ReadTensors);

std::string ComparisonText(const RunComparison& comparison);
std::string ComparisonJson(const RunComparison& comparison);

}  // namespace paceline::job
