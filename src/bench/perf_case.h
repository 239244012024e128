#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace paceline::bench {

// What `paceline perf` measures, in the terms of nccl-tests. Pure values and functions, shared by
// the driver and the ranks.

enum class PerfOp { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kLatency };

const char* PerfOpName(PerfOp op);
Result<PerfOp> ParsePerfOp(std::string_view name);

// "4096", "4K", "64M", "1G"; the suffixes are binary.
Result<std::size_t> ParseSize(std::string_view text);
std::string FormatSize(std::size_t bytes);  // "4K" where it is whole, else "1000"

struct SizeRange {
  std::size_t min_bytes = 4 << 10;
  std::size_t max_bytes = 64 << 20;
  std::size_t factor = 4;
};
// kInvalidArgument when the range is empty or does not end.
Result<std::vector<std::size_t>> ListSizes(const SizeRange& range);

// How an operation of about `bytes` looks in the table.
struct PerfShape {
  std::size_t bytes = 0;  // of the whole buffer: a multiple of what the ranks share equally
  std::size_t count = 0;  // elements; of one rank for all-gather and reduce-scatter
  std::string type = "float";
  std::string redop;  // "sum" or "none"
  int root = -1;      // -1: none
};
PerfShape ShapeOf(PerfOp op, std::size_t bytes, std::uint64_t world);

// Bytes that the slowest link must carry, as a share of the buffer: what makes bandwidths of
// different numbers of ranks comparable.
double BusFactor(PerfOp op, std::uint64_t world);

// Enough repetitions for a stable figure, few enough for a large buffer: 64 MiB in total, between
// 5 and 1000.
int DefaultIterations(std::size_t bytes);

// One turn of one engine.
struct PerfStep {
  PerfOp op = PerfOp::kAllReduce;
  std::size_t bytes = 0;
  int iterations = 20;
  int warmup = 1;
  bool check = true;
};
// "run op=allreduce size=4096 iters=20 warmup=1 check=1"
std::string ToCommand(const PerfStep& step);
Result<PerfStep> ParseCommand(std::string_view line);

// What one rank measured.
struct PerfSample {
  std::uint64_t rank = 0;
  double seconds = 0;  // all iterations
  int iterations = 0;
  double min_us = 0, p50_us = 0, p95_us = 0, p99_us = 0, max_us = 0;  // of single iterations
  std::int64_t wrong = -1;                                            // elements; -1: not checked
  std::uint64_t sent_bytes = 0;  // per iteration; 0: the engine does not know
};
std::string ToJson(const PerfSample& sample);
Result<PerfSample> SampleFromJson(std::string_view line);

}  // namespace paceline::bench
