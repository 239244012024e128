#include "bench/perf_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/html.h"
#include "bench/perf_chart.h"
#include "bench/perf_table.h"
#include "bench/report_parts.h"
#include "bench/table.h"

namespace paceline::bench {

namespace {

bool Ran(const EngineResults& engine) { return engine.unavailable.empty(); }

std::string OpTitle(PerfOp op) {
  switch (op) {
    case PerfOp::kAllReduce: return "All-reduce";
    case PerfOp::kAllGather: return "All-gather";
    case PerfOp::kReduceScatter: return "Reduce-scatter";
    case PerfOp::kBroadcast: return "Broadcast";
    case PerfOp::kLatency: return "Latency of small all-reduces";
  }
  return "";
}

std::string EngineTitle(const EngineResults& engine) {
  return engine.version.empty() ? engine.name : fmt::format("{} {}", engine.name, engine.version);
}

// Bandwidth of the median round between those of the slowest and the fastest.
LogPoint ChartPoint(const PerfConfig& config, const PerfPoint& point) {
  const Summary time = paceline::Summarize(point.time_us);
  const double value = BusBandwidth(config, point);
  const double bytes = static_cast<double>(
      ShapeOf(config.op, point.requested_bytes, static_cast<std::uint64_t>(config.workers)).bytes);
  if (time.min <= 0) return {};
  return {bytes, {value, value * time.median / time.max, value * time.median / time.min}};
}

LogChart MakeChart(const PerfResults& results) {
  LogChart chart{.id = "busbw",
                 .title = "Bus bandwidth by size",
                 .x_label = "bytes in the buffer",
                 .y_label = "bus bandwidth, GB/s"};
  for (const EngineResults& engine : results.engines) {
    if (!Ran(engine)) continue;
    LogSeries series{.name = engine.name};
    chart.description += engine.name + ":";
    for (const PerfPoint& point : engine.points) {
      series.points.push_back(ChartPoint(results.config, point));
      chart.description += fmt::format(" {} {:.2f};", FormatSize(point.requested_bytes),
                                       BusBandwidth(results.config, point));
    }
    chart.description += " ";
    chart.series.push_back(std::move(series));
  }
  return chart;
}

HtmlTable TimeTable(const PerfResults& results) {
  HtmlTable table{.caption = "Microseconds per operation, median ± median absolute deviation",
                  .header = {"Size"}};
  const std::size_t reference = ReferenceEngine(results).value_or(0);
  for (std::size_t e = 0; e < results.engines.size(); ++e) {
    if (!Ran(results.engines[e])) continue;
    table.header.push_back(results.engines[e].name);
    if (e != reference) {
      table.header.push_back(
          fmt::format("{} / {}", results.engines[reference].name, results.engines[e].name));
    }
  }
  for (std::size_t i = 0; i < results.engines[reference].points.size(); ++i) {
    auto& row = table.rows.emplace_back();
    row.push_back(FormatSize(results.engines[reference].points[i].requested_bytes));
    for (std::size_t e = 0; e < results.engines.size(); ++e) {
      const EngineResults& engine = results.engines[e];
      if (!Ran(engine)) continue;
      const bool measured = i < engine.points.size() && !engine.points[i].time_us.empty();
      row.push_back(measured ? FormatMicroseconds(paceline::Summarize(engine.points[i].time_us))
                             : "—");
      if (e != reference) row.push_back(FormatSpeedup(Speedup(results, e, i)));
    }
  }
  return table;
}

HtmlTable EngineTable(const PerfConfig& config, const EngineResults& engine) {
  HtmlTable table{
      .caption = EngineTitle(engine),
      .header = {"Size", "µs", "algbw GB/s", "busbw GB/s", "p50 µs", "p99 µs", "wrong"}};
  for (const PerfPoint& point : engine.points) {
    const auto median = [](const std::vector<double>& values) {
      return fmt::format("{:.1f}", paceline::Summarize(values).median);
    };
    table.rows.push_back({FormatSize(point.requested_bytes), median(point.time_us),
                          fmt::format("{:.3f}", AlgBandwidth(config, point)),
                          fmt::format("{:.3f}", BusBandwidth(config, point)), median(point.p50_us),
                          median(point.p99_us),
                          point.wrong < 0 ? "not checked" : std::to_string(point.wrong)});
  }
  return table;
}

PageSection BandwidthSection(const PerfResults& results) {
  const LogChart chart = MakeChart(results);
  return {
      "Bandwidth",
      FigureHtml(LogLogChartSvg(chart, ChartSize::kWide), LogLogChartSvg(chart, ChartSize::kNarrow),
                 "Both axes are logarithmic. Dots are medians over rounds; the lines span the "
                 "slowest and the fastest round.") +
          TableHtml(TimeTable(results))};
}

PageSection DetailSection(const PerfResults& results) {
  std::string html;
  for (const EngineResults& engine : results.engines) {
    if (Ran(engine)) html += TableHtml(EngineTable(results.config, engine));
  }
  return {"Each engine", html};
}

PageSection MethodSection(const PerfConfig& config) {
  return {
      "How it was measured",
      ParagraphHtml(fmt::format(
          "The ranks of all engines are started once. At each size they take turns for {}: one "
          "engine warms up with {}, meets at a barrier and repeats the operation in place while "
          "the others wait blocked; the order flips from round to round, so a disturbance of "
          "the machine hits all of them.",
          Plural(config.rounds, "round"), Plural(config.warmup, "operation"))) +
          ParagraphHtml(
              "The time of a round is the mean of its operations on the slowest rank. Algorithm "
              "bandwidth is the size of the buffer over that time; bus bandwidth multiplies it "
              "by the share that each link must carry (2(n−1)/n for all-reduce), as nccl-tests "
              "does. Ratios come from paired rounds. After each round one more operation on "
              "data that differ in every element and rank is checked element by element.")};
}

PageSection ProvenanceSection(const PerfResults& results) {
  const job::Machine& machine = results.machine;
  const Provenance& source = results.provenance;
  const auto known = [](const std::string& text) { return text.empty() ? "unknown" : text; };
  std::vector<std::pair<std::string, std::string>> facts{
      {"Started", FormatTime(source.started_unix)},
      {"Commit", known(source.commit) + (source.dirty ? " with uncommitted changes" : "")},
      {"Processor", fmt::format("{}, {} of {} cores usable", known(machine.cpu_model),
                                machine.cores, machine.cores_online)},
      {"System", fmt::format("{}, {}", known(machine.os), known(machine.kernel))},
      {"Load before", fmt::format("{:.2f}", machine.load_average)},
      {"Configuration", DescribePerf(results.config)}};
  for (const EngineResults& engine : results.engines) {
    const std::string memory = engine.max_rss_bytes > 0
                                   ? fmt::format("; largest rank {:.0f} MB",
                                                 static_cast<double>(engine.max_rss_bytes) / 1e6)
                                   : "";
    facts.emplace_back(engine.name, Ran(engine) ? known(engine.version) + memory
                                                : "not available: " + engine.unavailable);
  }
  return {"Where it comes from", CodeHtml(source.command_line) + FactsHtml(facts)};
}

PageSection NoticeSection(const PerfResults& results) {
  std::string html;
  if (results.partial) {
    html += NoticeHtml(Tone::kError, "This result is partial", {results.failure});
  }
  std::vector<std::string> lines = PerfWarnings(results);
  for (const EngineResults& engine : results.engines) {
    if (!Ran(engine)) lines.push_back("Not available: " + engine.unavailable);
  }
  if (!lines.empty()) html += NoticeHtml(Tone::kWarning, "Read with care", lines);
  return {"", html};
}

// The largest size, where bandwidth counts, and the smallest, where latency does.
std::vector<Tile> MakeTiles(const PerfResults& results) {
  std::vector<Tile> tiles;
  const EngineResults& ours = results.engines[*ReferenceEngine(results)];
  if (ours.points.empty() || ours.points.back().time_us.empty()) return tiles;
  const PerfPoint& small = ours.points.front();
  const PerfPoint& large = ours.points.back();
  tiles.push_back({fmt::format("{:.2f} GB/s", BusBandwidth(results.config, large)),
                   fmt::format("bus bandwidth of {}", ours.name),
                   "at " + FormatSize(large.requested_bytes)});
  tiles.push_back({fmt::format("{:.1f} µs", paceline::Summarize(small.time_us).median),
                   fmt::format("time of {}", ours.name),
                   "at " + FormatSize(small.requested_bytes)});
  for (std::size_t e = 0; e < results.engines.size(); ++e) {
    if (const auto ratio = Speedup(results, e, ours.points.size() - 1)) {
      tiles.push_back({fmt::format("{:.2f} ×", ratio->median),
                       fmt::format("speed of {}", results.engines[e].name),
                       "at " + FormatSize(large.requested_bytes)});
    }
  }
  return tiles;
}

}  // namespace

std::string PerfReport(const PerfResults& results) {
  std::vector<PageSection> sections;
  if (ReferenceEngine(results)) sections.push_back({"", TilesHtml(MakeTiles(results))});
  sections.push_back(NoticeSection(results));
  if (ReferenceEngine(results)) {
    sections.push_back(BandwidthSection(results));
    sections.push_back(DetailSection(results));
  }
  sections.push_back(MethodSection(results.config));
  sections.push_back(ProvenanceSection(results));
  std::erase_if(sections, [](const PageSection& section) { return section.html.empty(); });
  return PageHtml(
      {.title = OpTitle(results.config.op),
       .lead = fmt::format("{}. {}.", DescribePerf(results.config),
                           FormatTime(results.provenance.started_unix)),
       .footer = "Made by paceline perf. The figures behind this page are in results.json next to "
                 "it."},
      sections);
}

}  // namespace paceline::bench
