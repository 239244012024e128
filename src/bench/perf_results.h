#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/stats.h"
#include "base/status.h"
#include "bench/perf_case.h"
#include "bench/results.h"
#include "job/machine.h"

namespace paceline::bench {

struct PerfConfig {
  PerfOp op = PerfOp::kAllReduce;
  int workers = 2;
  SizeRange sizes;
  int iterations = 0;  // 0: DefaultIterations(size)
  int warmup = 5;
  int rounds = 5;
  bool check = true;
  std::string network;  // how the ranks are connected; empty: one host
};
PerfStep StepOf(const PerfConfig& config, std::size_t bytes);

// One engine at one size; element i of every list is round i.
struct PerfPoint {
  std::size_t requested_bytes = 0;
  std::vector<double> time_us;                                 // mean iteration of the slowest rank
  std::vector<double> min_us, p50_us, p95_us, p99_us, max_us;  // iterations of that rank
  int iterations = 0;
  std::int64_t wrong = -1;       // elements of all ranks and rounds; -1: not checked
  std::uint64_t sent_bytes = 0;  // per iteration, all ranks together; 0: unknown

  // `samples` of all ranks of one turn. kProtocol when they do not belong together.
  Status AddRound(std::span<const PerfSample> samples);
};

struct EngineResults {
  std::string name;
  std::string version;
  std::string unavailable;  // why it did not run; empty: it ran
  std::vector<PerfPoint> points;
  std::int64_t max_rss_bytes = 0;  // of the largest rank; 0: unknown
};

// results.json follows nccl-tests where it has a word for it. One object:
//   version, name "perf", start_time, end_time (UTC), args (command line), commit, dirty, partial,
//   errors (why, or ""), machine{...} as in results.h,
//   config{collective, workers, minbytes, maxbytes, stepfactor, iters, warmup_iters, rounds,
//          check, network}, warnings[text],
//   engines[{engine, engine_version, unavailable, max_rss_bytes|null, results[...],
//            out_of_bounds{count, okay}, average_bus_bandwidth{bandwidth, okay|null}}]
// each of results[]:
//   size, count, type, redop, root (text), out_of_place null,
//   in_place{time, alg_bw, bus_bw, nwrong|null}, actual_iterations, experiment_name,
//   time_summary{median, mad, min, max, mean, count}, times_us[] (one per round),
//   min_us, max_us, p50_us, p95_us, p99_us, sent_bytes|null, speedup{...}|null
// time is the median over rounds in microseconds; bandwidths are GB/s of 10^9 bytes. `speedup` is
// the reference engine's speed over this one's. A number that does not exist is null.
struct PerfResults {
  Provenance provenance;
  std::int64_t ended_unix = 0;
  job::Machine machine;
  PerfConfig config;
  std::vector<EngineResults> engines;
  bool partial = false;
  std::string failure;
};

// GB/s of 10^9 bytes; 0 when nothing was measured.
double AlgBandwidth(const PerfConfig& config, const PerfPoint& point);
double BusBandwidth(const PerfConfig& config, const PerfPoint& point);
double AverageBusBandwidth(const PerfConfig& config, const EngineResults& engine);
std::int64_t WrongElements(const EngineResults& engine);  // 0 also when not checked

// The first engine that ran, with which the others are compared; none when none did.
std::optional<std::size_t> ReferenceEngine(const PerfResults& results);
// Speed of the reference over that of engine `engine` at point `index`, from paired rounds; none
// for the reference itself and where either is missing.
std::optional<Summary> Speedup(const PerfResults& results, std::size_t engine, std::size_t index);

// "4 workers share 2 cores" and what else makes the figures doubtful.
std::vector<std::string> PerfWarnings(const PerfResults& results);

std::string ToJson(const PerfResults& results, JsonStyle style = JsonStyle::kIndented);
Status WritePerfJson(const std::string& path, const PerfResults& results);

}  // namespace paceline::bench
