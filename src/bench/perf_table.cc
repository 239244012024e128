#include "bench/perf_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text_table.h"
#include "bench/table.h"

namespace paceline::bench {

namespace {

constexpr char kNoFigure[] = "—";

// As nccl-tests: seven characters, fewer decimals for larger numbers.
std::string NcclTime(double us) {
  return us >= 10'000 ? fmt::format("{:.0f}", us) : fmt::format("{:.{}f}", us, us >= 100 ? 1 : 2);
}

std::string Decimals(double value) {
  return fmt::format("{:.{}f}", value, value >= 1000 ? 0 : value >= 10 ? 1 : 2);
}

std::string Microseconds(const std::vector<double>& rounds) {
  return rounds.empty() ? kNoFigure : FormatMicroseconds(paceline::Summarize(rounds));
}

using Rows = std::vector<std::vector<std::string>>;

// Columns of one engine in the comparison; `index` < 0 asks for the headings.
std::vector<std::string> EngineCells(const PerfResults& results, std::size_t engine,
                                     std::size_t index) {
  const EngineResults& mine = results.engines[engine];
  const bool latency = results.config.op == PerfOp::kLatency;
  if (index >= mine.points.size()) return std::vector<std::string>(latency ? 3 : 2, kNoFigure);
  const PerfPoint& point = mine.points[index];
  if (latency)
    return {Microseconds(point.time_us), Microseconds(point.p50_us), Microseconds(point.p99_us)};
  return {Microseconds(point.time_us), fmt::format("{:.2f}", BusBandwidth(results.config, point))};
}

std::vector<std::string> EngineHeadings(const PerfConfig& config, const std::string& name) {
  if (config.op == PerfOp::kLatency) return {name + " us", "p50", "p99"};
  return {name + " us", "GB/s"};
}

void Append(std::vector<std::string>* row, const std::vector<std::string>& cells) {
  row->insert(row->end(), cells.begin(), cells.end());
}

}  // namespace

std::string FormatMicroseconds(const std::optional<Summary>& time_us) {
  if (!time_us) return kNoFigure;
  return fmt::format("{} ± {}", Decimals(time_us->median), Decimals(time_us->mad));
}

std::string FormatSpeedup(const std::optional<Summary>& speedup) {
  constexpr double kSmall = 0.1;  // two decimals would say nothing
  if (!speedup || speedup->median >= kSmall) return FormatRatio(speedup);
  return fmt::format("{:.2g} ± {:.1g} ×", speedup->median, speedup->mad);
}

std::string DescribePerf(const PerfConfig& config) {
  return fmt::format("{} on {}; median ± MAD of {}", Plural(config.workers, "worker"),
                     config.network.empty() ? "one host" : config.network,
                     Plural(config.rounds, "round"));
}

std::string NcclHeader(const PerfConfig& config) {
  return fmt::format(
      "#\n# {}, {} ranks\n"
      "#                                                                 in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        \n",
      PerfOpName(config.op), config.workers);
}

std::string NcclRow(const PerfConfig& config, const PerfPoint& point) {
  const PerfShape shape =
      ShapeOf(config.op, point.requested_bytes, static_cast<std::uint64_t>(config.workers));
  const double us = paceline::Summarize(point.time_us).median;
  const std::string wrong = point.wrong < 0 ? "N/A" : fmt::format("{}", point.wrong);
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6.2f}  {:>6.2f}  {:>6}\n",
                     shape.bytes, shape.count, shape.type, shape.redop, shape.root, NcclTime(us),
                     AlgBandwidth(config, point), BusBandwidth(config, point), wrong);
}

std::string NcclFooter(const PerfConfig& config, const EngineResults& engine) {
  const std::int64_t wrong = WrongElements(engine);
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n#\n", wrong,
                     wrong == 0 ? "OK" : "FAILED", AverageBusBandwidth(config, engine));
}

std::string SideBySide(const PerfResults& results) {
  const auto reference = ReferenceEngine(results);
  if (!reference) return "";
  Rows rows{{"Size"}};
  std::size_t count = 0;
  for (std::size_t e = 0; e < results.engines.size(); ++e) {
    const EngineResults& engine = results.engines[e];
    if (!engine.unavailable.empty()) continue;
    count = std::max(count, engine.points.size());
    Append(&rows[0], EngineHeadings(results.config, engine.name));
    if (e != *reference) {
      rows[0].push_back(fmt::format("{} / {}", results.engines[*reference].name, engine.name));
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::string>& row = rows.emplace_back();
    const auto& sizes = results.engines[*reference].points;
    row.push_back(i < sizes.size() ? FormatSize(sizes[i].requested_bytes) : kNoFigure);
    for (std::size_t e = 0; e < results.engines.size(); ++e) {
      if (!results.engines[e].unavailable.empty()) continue;
      Append(&row, EngineCells(results, e, i));
      if (e != *reference) row.push_back(FormatSpeedup(Speedup(results, e, i)));
    }
  }
  return AlignColumns(rows);
}

std::string PerfTable(const PerfResults& results) {
  std::string text =
      fmt::format("{}; {}\n", PerfOpName(results.config.op), DescribePerf(results.config));
  for (const EngineResults& engine : results.engines) {
    if (!engine.unavailable.empty()) continue;
    text += fmt::format("\n# engine {} {}\n{}", engine.name, engine.version,
                        NcclHeader(results.config));
    for (const PerfPoint& point : engine.points) text += NcclRow(results.config, point);
    text += NcclFooter(results.config, engine);
  }
  text += "\n" + SideBySide(results);
  std::string notes;
  for (const EngineResults& engine : results.engines) {
    if (!engine.unavailable.empty()) notes += "not available: " + engine.unavailable + "\n";
  }
  for (const std::string& warning : PerfWarnings(results)) notes += "warning: " + warning + "\n";
  if (results.partial) notes += "partial result: " + results.failure + "\n";
  return notes.empty() ? text : text + "\n" + notes;
}

}  // namespace paceline::bench
