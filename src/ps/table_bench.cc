// Measures how a sparse table grows: memory, time to make rows, and the cost of a push to rows that
// are spread over the whole table. By hand, not a test:
//   ps_table_bench ROWS [sgd|adagrad|adam|...] [FOLDER]      FOLDER: RocksDB below it
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/rng.h"
#include "ps/rocks_table.h"
#include "ps/sparse_table.h"

namespace paceline::ps {
namespace {

constexpr std::size_t kDim = 10;
constexpr std::size_t kIdsOfACall = 1000;
constexpr std::int64_t kReports = 10;
constexpr int kPushes = 501;  // odd, so that the median is one of them

using SteadyClock = std::chrono::steady_clock;

double Microseconds(SteadyClock::time_point since) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - since).count();
}

std::size_t ResidentBytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

Status Grow(Table& table, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> ids;
  std::vector<float> out;
  for (std::int64_t at = begin; at < end; at += static_cast<std::int64_t>(ids.size())) {
    ids.resize(std::min(kIdsOfACall, static_cast<std::size_t>(end - at)));
    std::iota(ids.begin(), ids.end(), at);
    out.resize(ids.size() * kDim);
    PACELINE_TRY(table.Pull(ids, Touch::kTrain, out));
  }
  return {};
}

// Of each push, sorted.
Result<std::vector<double>> TimePushes(Table& table, std::int64_t rows) {
  std::vector<double> microseconds;
  std::vector<std::int64_t> ids(kIdsOfACall);
  const std::vector<float> gradients(kIdsOfACall * kDim, 0.01F);
  for (int push = 0; push < kPushes; ++push) {
    CounterRng rng(1, Purpose::kTest, static_cast<std::uint64_t>(push),
                   static_cast<std::uint64_t>(rows));
    for (std::int64_t& id : ids) id = rng.Below(static_cast<std::uint32_t>(rows));
    const auto start = SteadyClock::now();
    PACELINE_TRY(table.Push(ids, gradients, 0.1F));
    microseconds.push_back(Microseconds(start));
  }
  std::ranges::sort(microseconds);
  return microseconds;
}

Status Measure(Table& table, std::int64_t rows, std::size_t payload_bytes) {
  const std::size_t resident_before = ResidentBytes();
  fmt::print("{:>11} {:>11} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}\n", "rows", "create us/k",
             "table MB", "RSS MB", "x payload", "push p50", "p90", "p99");
  for (std::int64_t report = 0; report < kReports; ++report) {
    const std::int64_t begin = rows * report / kReports, end = rows * (report + 1) / kReports;
    const auto start = SteadyClock::now();
    PACELINE_TRY(Grow(table, begin, end));
    const double create = Microseconds(start) * 1000 / static_cast<double>(end - begin);
    PACELINE_ASSIGN(const std::vector<double> pushes, TimePushes(table, end));
    const std::size_t resident = ResidentBytes() - resident_before;
    const double factor = static_cast<double>(resident) / static_cast<double>(payload_bytes) /
                          static_cast<double>(end);
    fmt::print("{:>11} {:>11.1f} {:>9.1f} {:>9.1f} {:>9.3f} {:>8.0f} {:>8.0f} {:>8.0f}\n",
               table.Size(), create, static_cast<double>(table.MemoryBytes()) * 1e-6,
               static_cast<double>(resident) * 1e-6, factor, pushes[kPushes / 2],
               pushes[kPushes * 9 / 10], pushes[kPushes * 99 / 100]);
    std::fflush(stdout);
  }
  return {};
}

Status Run(const std::vector<std::string>& arguments) {
  const std::int64_t rows = arguments.empty() ? 0 : std::atoll(arguments[0].c_str());
  if (rows < kReports || rows > INT64_C(0xFFFFFFFF)) {
    return Status::Error(Code::kInvalidArgument, "usage: ps_table_bench ROWS [OPTIMIZER] [FOLDER]");
  }
  TableOptions options{.name = "bench", .dim = kDim, .seed = 1, .init_range = 0.01F};
  if (arguments.size() > 1) {
    PACELINE_ASSIGN(options.optimizer.kind, ParseRowOptimizer(arguments[1]));
  }
  PACELINE_ASSIGN(const std::unique_ptr<Table> table,
                  arguments.size() > 2 ? OpenRocksTable(options, {.folder = arguments[2]})
                                       : OpenSparseTable(options));
  const std::size_t payload =
      sizeof(std::int64_t) + sizeof(float) * (kDim + StateFloats(options.optimizer.kind, kDim));
  return Measure(*table, rows, payload);
}

}  // namespace
}  // namespace paceline::ps

int main(int argc, char** argv) {
  const paceline::Status status = paceline::ps::Run({argv + 1, argv + argc});
  if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
  return paceline::ExitCode(status.code());
}
