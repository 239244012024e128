// paceline-perf: one rank that measures one collective. Started by `paceline perf` (which then
// commands it through a socket), by mpirun, or by hand once per rank.
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "base/thread.h"
#include "bench/perf_case.h"
#include "bench/perf_channel.h"
#include "bench/perf_engine.h"
#include "bench/perf_rank.h"
#include "bench/perf_results.h"
#include "bench/perf_table.h"
#include "cli/parse.h"

namespace paceline::cli {

namespace {

constexpr char kName[] = "paceline-perf";
constexpr int kNotAvailable = 3;  // the protocol's code for "this engine is not here"

struct Arguments {
  std::string collective = "allreduce";
  std::string engine = "mpi";
  std::string min = "4K", max = "64M";
  bench::PerfConfig config;
  int check = 1;
  std::string json_path;
};

std::string Environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// The place of this rank, from the launcher's variables (docs/perf.md).
bench::PerfEngineOptions PlaceFromEnvironment(const std::string& engine) {
  const auto number = [](const char* name, std::uint64_t otherwise) {
    const std::string text = Environment(name, "");
    return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 10);
  };
  return {.name = engine,
          .rank = Rank(number("PACELINE_RANK", 0)),
          .world = number("PACELINE_WORLD", 1),
          .address = Environment("PACELINE_ADDRESS", "127.0.0.1"),
          .meeting = Environment("PACELINE_PERF_MEETING", "")};
}

// Ends this process when the driver goes away, also in the middle of an operation that would wait
// for a dead peer for ever.
class DriverWatch {
 public:
  explicit DriverWatch(int fd)
      : thread_(StartThread("driver-watch", [fd](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            pollfd wait{fd, POLLRDHUP, 0};
            constexpr int kTickMs = 200;
            if (::poll(&wait, 1, kTickMs) > 0 && !stop.stop_requested()) ::_exit(1);
          }
        })) {}

 private:
  std::jthread thread_;
};

Status Serve(collective::Engine& engine, const std::string& name, const std::string& control) {
  PACELINE_ASSIGN(bench::PerfChannel channel, bench::PerfChannel::Connect(control));
  const DriverWatch watch(channel.fd());
  return bench::ServePerf(engine, name, SystemClock(), channel);
}

// The slowest rank's time, and the wrong elements of all, on every rank.
Result<bench::PerfPoint> Combine(collective::Engine& engine, const bench::PerfSample& mine) {
  std::vector<bench::PerfSample> samples(engine.world());
  samples[engine.rank().value()] = mine;
  PACELINE_TRY(engine.AllGather(std::as_writable_bytes(std::span(samples))));
  bench::PerfPoint point;
  PACELINE_TRY(point.AddRound(samples));
  return point;
}

Status MeasureAll(collective::Engine& engine, const Arguments& arguments) {
  bench::PerfResults results;
  results.config = arguments.config;
  results.config.workers = static_cast<int>(engine.world());
  bench::EngineResults& mine = results.engines.emplace_back();
  mine.name = engine.name();
  mine.version = bench::PerfEngineVersion(engine.name());
  PACELINE_ASSIGN(const std::vector<std::size_t> sizes, bench::ListSizes(results.config.sizes));
  bench::PerfRank rank(engine, SystemClock());
  const bool prints = engine.rank() == Rank(0);
  if (prints) fmt::print("{}", bench::NcclHeader(results.config));
  for (const std::size_t size : sizes) {
    PACELINE_ASSIGN(const bench::PerfSample sample,
                    rank.Measure(bench::StepOf(results.config, size)));
    PACELINE_ASSIGN(bench::PerfPoint point, Combine(engine, sample));
    point.requested_bytes = size;
    mine.points.push_back(point);
    if (prints) fmt::print("{}", bench::NcclRow(results.config, point));
  }
  if (!prints) return {};
  fmt::print("{}", bench::NcclFooter(results.config, mine));
  if (arguments.json_path.empty()) return {};
  return bench::WritePerfJson(arguments.json_path, results);
}

int Run(const Arguments& arguments) {
  auto group = bench::MakePerfGroup(PlaceFromEnvironment(arguments.engine));
  if (!group.ok()) {
    const int code = Fail(kName, group.status());
    return group.status().code() == Code::kUnavailable ? kNotAvailable : code;
  }
  collective::Engine& engine = (*group)->engine();
  const std::string control = Environment("PACELINE_PERF_CONTROL", "");
  const Status status =
      control.empty() ? MeasureAll(engine, arguments) : Serve(engine, arguments.engine, control);
  const Status ended = status.ok() ? (*group)->Leave() : status;
  return ended.ok() ? 0 : Fail(kName, ended);
}

}  // namespace

int PerfMain(const std::vector<std::string>& words) {
  CLI::App app("One rank that measures one collective: time, bandwidth and correctness.", kName);
  Arguments arguments;
  bench::PerfConfig& config = arguments.config;
  app.option_defaults()->always_capture_default();
  app.add_option("collective", arguments.collective,
                 "allreduce, allgather, reducescatter, broadcast or latency");
  app.add_option("--engine", arguments.engine, "native, native-tcp, gloo or mpi");
  app.add_option("-b", arguments.min, "Smallest size; K, M and G are binary");
  app.add_option("-e", arguments.max, "Largest size");
  app.add_option("-f", config.sizes.factor, "Factor between sizes");
  app.add_option("-n", config.iterations, "Iterations; 0: by size");
  app.add_option("-w", config.warmup, "Iterations to warm up");
  app.add_option("-c", arguments.check, "1: check the results");
  app.add_option("-J", arguments.json_path, "Write the results to this JSON file");
  if (const auto exit = ParseArguments(app, words)) return *exit;
  const auto op = bench::ParsePerfOp(arguments.collective);
  if (!op.ok()) return Fail(kName, op.status());
  const auto min = bench::ParseSize(arguments.min), max = bench::ParseSize(arguments.max);
  if (!min.ok()) return Fail(kName, min.status());
  if (!max.ok()) return Fail(kName, max.status());
  config.op = *op;
  config.sizes.min_bytes = *min;
  config.sizes.max_bytes = *max;
  config.check = arguments.check != 0;
  return Run(arguments);
}

}  // namespace paceline::cli

int main(int argc, char** argv) { return paceline::cli::PerfMain({argv + 1, argv + argc}); }
