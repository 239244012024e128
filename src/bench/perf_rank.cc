#include "bench/perf_rank.h"

#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "algo/shard_layout.h"
#include "base/json_writer.h"
#include "base/stats.h"
#include "bench/perf_engine.h"

namespace paceline::bench {

namespace {

// Small integers that differ between neighbours and ranks; sums over thousands of ranks are exact.
float Value(std::uint64_t rank, std::size_t element) {
  return static_cast<float>((element * 31 + rank * 17) % 1021);
}

float Sum(std::uint64_t world, std::size_t element) {
  float sum = 0;
  for (std::uint64_t rank = 0; rank < world; ++rank) sum += Value(rank, element);
  return sum;
}

void Fill(std::uint64_t rank, std::span<float> values) {
  for (std::size_t e = 0; e < values.size(); ++e) values[e] = Value(rank, e);
}

PerfSample Summarise(std::vector<double> iteration_us, double seconds) {
  return {.seconds = seconds,
          .iterations = static_cast<int>(iteration_us.size()),
          .min_us = Quantile(iteration_us, 0),
          .p50_us = Quantile(iteration_us, 0.5),
          .p95_us = Quantile(iteration_us, 0.95),
          .p99_us = Quantile(iteration_us, 0.99),
          .max_us = Quantile(iteration_us, 1)};
}

std::int64_t MaxRssBytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

Status PerfRank::Perform(PerfOp op, std::span<float> values) {
  const std::span<float> parts[] = {values};  // one shard per rank
  switch (op) {
    case PerfOp::kAllReduce:
    case PerfOp::kLatency: return engine_.AllReduce(parts);
    case PerfOp::kReduceScatter: return engine_.ReduceScatter(parts);
    case PerfOp::kAllGather: return engine_.AllGather(std::as_writable_bytes(values));
    case PerfOp::kBroadcast: return engine_.Broadcast(std::as_writable_bytes(values), Rank(0));
  }
  return Status::Error(Code::kInternal, "unknown operation");
}

Result<std::int64_t> PerfRank::CountWrong(PerfOp op, std::span<float> values) {
  const std::uint64_t world = engine_.world();
  Fill(engine_.rank().value(), values);
  PACELINE_TRY(Perform(op, values));
  algo::Slice defined{0, values.size()};
  if (op == PerfOp::kReduceScatter) {
    defined = algo::SliceOf(values.size(), world, engine_.rank().value());
  }
  const std::size_t block = std::max<std::size_t>(1, values.size() / world);
  std::int64_t wrong = 0;
  for (std::size_t e = defined.begin; e < defined.end; ++e) {
    float expected = Sum(world, e);
    if (op == PerfOp::kBroadcast) expected = Value(0, e);
    if (op == PerfOp::kAllGather) expected = Value(e / block, e);
    if (values[e] != expected) ++wrong;
  }
  return wrong;
}

Result<PerfSample> PerfRank::Measure(const PerfStep& step) {
  const PerfShape shape = ShapeOf(step.op, step.bytes, engine_.world());
  const std::size_t floats = shape.bytes / sizeof(float);
  if (!buffers_.contains(floats)) {
    PACELINE_ASSIGN(buffers_[floats], engine_.Allocate(floats));
  }
  const std::span<float> values = buffers_[floats];
  Fill(engine_.rank().value(), values);
  for (int i = 0; i < step.warmup; ++i) PACELINE_TRY(Perform(step.op, values));
  // Repeated sums would leave the range of floats.
  std::fill(values.begin(), values.end(), 0.0F);
  PACELINE_TRY(engine_.Barrier());
  const std::uint64_t sent_before = engine_.traffic().bytes_sent;
  std::vector<double> iteration_us;
  iteration_us.reserve(static_cast<std::size_t>(step.iterations));
  const Instant start = clock_.Now();
  for (Instant last = start; std::ssize(iteration_us) < step.iterations;) {
    PACELINE_TRY(Perform(step.op, values));
    const Instant now = clock_.Now();
    iteration_us.push_back(ToSeconds(now - last) * 1e6);
    last = now;
  }
  PerfSample sample = Summarise(iteration_us, ToSeconds(clock_.Now() - start));
  sample.rank = engine_.rank().value();
  sample.sent_bytes =
      (engine_.traffic().bytes_sent - sent_before) / static_cast<std::uint64_t>(step.iterations);
  if (step.check) {
    PACELINE_ASSIGN(sample.wrong, CountWrong(step.op, values));
  }
  return sample;
}

Status ServePerf(collective::Engine& engine, const std::string& name, const Clock& clock,
                 PerfChannel& channel) {
  PACELINE_TRY(channel.WriteLine(JsonObject()
                                     .Add("ready", true)
                                     .Add("engine", name)
                                     .Add("version", PerfEngineVersion(engine.name()))
                                     .Add("rank", engine.rank().value())
                                     .Add("world", engine.world())
                                     .Text()));
  PerfRank rank(engine, clock);
  for (;;) {
    PACELINE_ASSIGN(const std::string line, channel.ReadLine(std::nullopt));
    if (line == "quit") {
      return channel.WriteLine(JsonObject().Add("max_rss_bytes", MaxRssBytes()).Text());
    }
    Result<PerfSample> sample = Status::Error(Code::kInternal, "not measured");
    const auto step = ParseCommand(line);
    sample = step.ok() ? rank.Measure(*step) : step.status();
    if (!sample.ok()) {
      static_cast<void>(
          channel.WriteLine(JsonObject().Add("error", sample.status().message()).Text()));
      return sample.status();
    }
    PACELINE_TRY(channel.WriteLine(ToJson(*sample)));
  }
}

}  // namespace paceline::bench
