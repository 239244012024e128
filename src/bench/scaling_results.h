#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/stats.h"
#include "bench/results.h"
#include "job/machine.h"

namespace paceline::bench {

struct ScalingConfig {
  std::string model = "vgg16";
  int workers = 2;
  int batch = 64;                      // samples of each worker in one step
  int threads = 1;                     // of each worker
  std::vector<std::vector<int>> cpus;  // of each worker; empty: not pinned
  int rounds = 7;
  int steps = 2;  // of a round
  // The first steps of a group measure what the later ones rely on.
  int warmup_steps = 2;
};

// The workers of one system, alone side by side or training together.
struct TeamRuns {
  std::vector<std::vector<double>> rank_seconds;               // [round][rank]
  std::vector<std::vector<std::vector<double>>> step_seconds;  // [round][rank][step], or empty
  std::int64_t samples = 0;                                    // of all workers in a round
  std::int64_t max_rss_bytes = 0;                              // of all workers
  std::optional<double> last_loss;                             // of worker 0

  // Samples per second of each round; its time is that of the slowest worker.
  std::vector<double> Rates() const;
  // The sum of what each worker did in its own time: of workers that do not wait for each other.
  std::vector<double> SummedRates() const;
  // As if each had waited for the slowest after every step, and done nothing else for the others.
  // No synchronous training gets above it: what is missing to SummedRates() is that cores are not
  // equally fast from step to step. Empty when a system does not tell the times of its steps.
  std::vector<double> RatesInStep() const;
};

struct ScalingSystem {
  SystemInfo info;
  std::string together_name;  // how its workers cooperate: "allreduce"
  TeamRuns alone;             // independent processes, at the same time
  TeamRuns together;          // the same number of processes, training one model
};

// results.json, schema 1. One object:
//   schema, name "scaling", partial, failure, command_line, started_unix, commit, dirty,
//   machine{...} as in results.h,
//   config{model, workers, batch, threads, cpus[[...]], rounds, steps, warmup_steps},
//   systems[{name, version, params, tensors, unavailable, together_name,
//            alone{rank_seconds[[...]], step_seconds[[[...]]], samples, max_rss_bytes,
//            last_loss|null}, together{...}}],
//   warnings[text],
//   summary[{name, alone{samples_per_second{median, mad, min, max, mean, count}|null,
//   speedup|null},
//            together{...}, efficiency{...}|null, in_step{...}|null}]
// `efficiency` is together / alone, `in_step` what is left of alone when the lone workers are made
// to wait for each other after every step, `speedup` ours over that system's; all from paired
// rounds. The first system is ours. A number that does not exist is null.
struct ScalingResults {
  Provenance provenance;
  job::Machine machine;
  ScalingConfig config;
  std::vector<ScalingSystem> systems;
  bool partial = false;
  std::string failure;
};

// What is published of one system.
struct ScalingCell {
  std::optional<Summary> alone;             // samples per second; none: did not run
  std::optional<Summary> together;          // samples per second
  std::optional<Summary> efficiency;        // together / alone
  std::optional<Summary> in_step;           // alone, waiting for each other / alone
  std::optional<Summary> alone_speedup;     // ours over this system's; none for ours
  std::optional<Summary> together_speedup;  // the same
};
// In the order of `results.systems`.
std::vector<ScalingCell> Summarize(const ScalingResults& results);

// What makes the figures doubtful.
std::vector<std::string> ScalingWarnings(const ScalingResults& results);

std::string ToJson(const ScalingResults& results, JsonStyle style = JsonStyle::kIndented);

}  // namespace paceline::bench
