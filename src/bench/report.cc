#include "bench/report.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "bench/html.h"
#include "bench/report_parts.h"
#include "bench/summary.h"
#include "bench/svg_chart.h"
#include "bench/table.h"

namespace paceline::bench {

namespace {

using Batches = std::vector<BatchSummary>;

bool Ran(const SystemInfo& system) { return system.unavailable.empty(); }

// "1.95" or "1.95 to 2.10": what holds over all batch sizes.
std::string RangeText(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string first = fmt::format("{:.2f}", *low);
  const std::string second = fmt::format("{:.2f}", *high);
  return first == second ? first : fmt::format("{}–{}", first, second);
}

std::vector<double> Medians(const Batches& batches, std::size_t system) {
  std::vector<double> medians;
  for (const BatchSummary& batch : batches) {
    if (batch.cells[system].speedup) medians.push_back(batch.cells[system].speedup->median);
  }
  return medians;
}

std::vector<double> MemoryRatios(const Batches& batches, std::size_t system) {
  std::vector<double> ratios;
  for (const BatchSummary& batch : batches) {
    if (batch.cells[system].memory_ratio) ratios.push_back(*batch.cells[system].memory_ratio);
  }
  return ratios;
}

std::vector<Tile> MakeTiles(const SingleNodeResults& results, const Batches& batches) {
  std::vector<Tile> tiles;
  for (std::size_t i = 1; i < results.systems.size(); ++i) {
    const std::string& name = results.systems[i].name;
    if (const auto medians = Medians(batches, i); !medians.empty()) {
      tiles.push_back({RangeText(medians) + " ×", fmt::format("speed of {}", name),
                       "median of paired rounds, per batch size"});
    }
    if (const auto ratios = MemoryRatios(batches, i); !ratios.empty()) {
      tiles.push_back({RangeText(ratios) + " ×", fmt::format("memory of {}", name),
                       "peak resident set, less is better"});
    }
  }
  const BatchSummary* best = nullptr;
  const auto rate = [](const BatchSummary& batch) {
    const auto& summary = batch.cells[0].samples_per_second;
    return summary ? summary->median : 0;
  };
  for (const BatchSummary& batch : batches) {
    if (best == nullptr || rate(batch) > rate(*best)) best = &batch;
  }
  if (best != nullptr && rate(*best) > 0) {
    tiles.push_back({fmt::format("{:.1f}", rate(*best)), "samples per second",
                     fmt::format("best of ours, at batch size {}", best->batch)});
  }
  return tiles;
}

Chart MakeChart(const SingleNodeResults& results, const Batches& batches, std::size_t first,
                const std::function<std::optional<Summary>(const Cell&)>& pick) {
  Chart chart;
  for (const BatchSummary& batch : batches) {
    chart.categories.push_back(fmt::format("batch {}", batch.batch));
  }
  for (std::size_t i = first; i < results.systems.size(); ++i) {
    if (!Ran(results.systems[i])) continue;
    ChartSeries series{.name = results.systems[i].name};
    for (const BatchSummary& batch : batches) {
      const std::optional<Summary> summary = pick(batch.cells[i]);
      series.values.push_back(summary ? std::optional<ChartValue>(
                                            ChartValue{summary->median, summary->min, summary->max})
                                      : std::nullopt);
    }
    chart.description += series.name + ":";
    for (std::size_t b = 0; b < series.values.size(); ++b) {
      if (!series.values[b]) continue;
      chart.description += fmt::format(" {} {:.2f};", chart.categories[b], series.values[b]->value);
    }
    chart.description += " ";
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// From the first system on each row is a system; from the second on, ours over that system.
HtmlTable MakeTable(const SingleNodeResults& results, const Batches& batches, std::size_t first,
                    const std::function<std::string(const Cell&)>& format) {
  HtmlTable table;
  table.header.emplace_back("Batch size");
  for (const BatchSummary& batch : batches) table.header.push_back(std::to_string(batch.batch));
  for (std::size_t i = first; i < results.systems.size(); ++i) {
    if (!Ran(results.systems[i])) continue;
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(first == 0
                      ? SystemTitle(results.systems[i])
                      : fmt::format("{} / {}", results.systems[0].name, results.systems[i].name));
    for (const BatchSummary& batch : batches) row.push_back(format(batch.cells[i]));
  }
  table.emphasized_rows = first == 0 && !table.rows.empty() ? 1 : 0;
  return table;
}

PageSection ThroughputSection(const SingleNodeResults& results, const Batches& batches) {
  Chart chart =
      MakeChart(results, batches, 0, [](const Cell& cell) { return cell.samples_per_second; });
  chart.id = "throughput";
  chart.title = "Samples per second by batch size";
  chart.value_label = "samples per second";
  HtmlTable table = MakeTable(results, batches, 0,
                              [](const Cell& cell) { return FormatRate(cell.samples_per_second); });
  table.caption = "Samples per second, median ± median absolute deviation";
  return {"Training speed",
          FigureHtml(BarChartSvg(chart, ChartSize::kWide), BarChartSvg(chart, ChartSize::kNarrow),
                     "Bars are medians; the whiskers span the slowest and the fastest round.") +
              TableHtml(table)};
}

PageSection RatioSection(const SingleNodeResults& results, const Batches& batches) {
  const std::string& ours = results.systems[0].name;
  Chart chart = MakeChart(results, batches, 1, [](const Cell& cell) { return cell.speedup; });
  if (chart.series.empty()) return {};
  chart.id = "ratio";
  chart.title = fmt::format("Speed of {} relative to each peer", ours);
  chart.value_label = fmt::format("speed of {} ÷ speed of {}", ours,
                                  chart.series.size() == 1 ? chart.series[0].name : "the peer");
  HtmlTable table =
      MakeTable(results, batches, 1, [](const Cell& cell) { return FormatRatio(cell.speedup); });
  table.caption = fmt::format("{} over the peer, median ± median absolute deviation", ours);
  return {
      "Side by side",
      FigureHtml(DotChartSvg(chart, 1, ChartSize::kWide), DotChartSvg(chart, 1, ChartSize::kNarrow),
                 "Each round measures every system once, one right after the other; the dot is "
                 "the median of the per-round ratios, the line spans all rounds.") +
          TableHtml(table)};
}

PageSection MemorySection(const SingleNodeResults& results, const Batches& batches) {
  HtmlTable table = MakeTable(results, batches, 0,
                              [](const Cell& cell) { return FormatBytes(cell.max_rss_bytes); });
  table.caption = "Largest resident set of the process";
  const HtmlTable ratios = MakeTable(results, batches, 1, [](const Cell& cell) {
    return cell.memory_ratio ? fmt::format("{:.2f} ×", *cell.memory_ratio) : "—";
  });
  table.rows.insert(table.rows.end(), ratios.rows.begin(), ratios.rows.end());
  return {"Memory", TableHtml(table)};
}

PageSection MethodSection(const SingleNodeConfig& config) {
  const std::string place =
      config.cpu
          ? fmt::format(" All of them, with every thread they start, share CPU {}.", *config.cpu)
          : "";
  return {
      "How it was measured",
      ParagraphHtml(fmt::format(
          "For each batch size all systems are started once and stay alive. In every round each "
          "of them performs as many steps as make {} samples (at least one) while the others wait "
          "blocked; the order flips "
          "from round to round, so a disturbance of the machine hits all of them.{}",
          config.samples_per_round, place)) +
          ParagraphHtml(fmt::format(
              "A step is a whole one: fetching and normalising the batch, forward, backward, "
              "Adam. Before the {} that count, each system warms up with {}. Every "
              "system must report the same number of parameters, or the benchmark fails. "
              "Outliers are counted, never removed.",
              Plural(config.rounds, "round"), Plural(config.warmup_steps, "step")))};
}

PageSection ReferenceSection() {
  HtmlTable table{.caption = "Samples per second on an Intel Xeon E5-2620 v4, 2018",
                  .header = {"Batch size", "32", "64", "128", "256"},
                  .rows = {{"PaddlePaddle Fluid", "15.44", "16.32", "16.74", "16.79"},
                           {"PaddlePaddle v2", "15.97", "17.04", "17.60", "17.83"},
                           {"TensorFlow", "9.09", "9.10", "9.24", "8.66"}}};
  return {"Reference: other hardware",
          ParagraphHtml(
              "PaddlePaddle's published figures for VGG16 on one node and one thread "
              "(MKL_NUM_THREADS=1). They come from other hardware and cannot be compared with the "
              "rows above; they show where this benchmark comes from.") +
              TableHtml(table)};
}

PageSection ProvenanceSection(const SingleNodeResults& results) {
  Facts facts = SourceFacts(results.provenance, results.machine);
  facts.emplace_back("Configuration", DescribeConfig(results.config));
  for (const SystemInfo& system : results.systems) facts.push_back(SystemFact(system));
  return {"Where it comes from", CodeHtml(results.provenance.command_line) + FactsHtml(facts)};
}

PageSection RawSection(const SingleNodeResults& results) {
  HtmlTable table{.caption = "Seconds of every round, in the order they were taken",
                  .header = {"Batch size, system"}};
  for (int round = 1; round <= results.config.rounds; ++round) {
    table.header.push_back(std::to_string(round));
  }
  for (const BatchRuns& batch : results.batches) {
    for (std::size_t i = 0; i < batch.systems.size(); ++i) {
      if (batch.systems[i].seconds.empty()) continue;
      std::vector<std::string>& row = table.rows.emplace_back();
      row.push_back(fmt::format("{}, {}", batch.batch, results.systems[i].name));
      for (const double seconds : batch.systems[i].seconds) {
        row.push_back(fmt::format("{:.3f}", seconds));
      }
    }
  }
  return {"Raw timings", TableHtml(table)};
}

std::string Lead(const SingleNodeResults& results) {
  return fmt::format("{} on CIFAR-10-sized images, one process, {}. {}, {}.",
                     ModelTitle(results.config.model), Plural(results.config.threads, "thread"),
                     OrUnknown(results.machine.cpu_model),
                     FormatTime(results.provenance.started_unix));
}

}  // namespace

std::string SingleNodeReport(const SingleNodeResults& results) {
  const Batches batches = Summarize(results);
  std::vector<PageSection> sections;
  if (!batches.empty()) sections.push_back({"", TilesHtml(MakeTiles(results, batches))});
  sections.push_back(
      NoticeSection(results.partial ? results.failure : "", Warnings(results), results.systems));
  if (!batches.empty()) {
    sections.push_back(ThroughputSection(results, batches));
    sections.push_back(RatioSection(results, batches));
    sections.push_back(MemorySection(results, batches));
  }
  sections.push_back(MethodSection(results.config));
  sections.push_back(ReferenceSection());
  sections.push_back(ProvenanceSection(results));
  if (!batches.empty()) sections.push_back(RawSection(results));
  std::erase_if(sections, [](const PageSection& section) { return section.html.empty(); });
  return PageHtml({.title = "Single-node training speed",
                   .lead = Lead(results),
                   .footer = "Made by paceline bench single-node. The figures behind this page are "
                             "in results.json next to it."},
                  sections);
}

}  // namespace paceline::bench
