#include "bench/scaling_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text_table.h"
#include "bench/html.h"
#include "bench/report_parts.h"
#include "bench/svg_chart.h"
#include "bench/table.h"

namespace paceline::bench {

namespace {

using Cells = std::vector<ScalingCell>;

bool Ran(const ScalingSystem& system) { return system.info.unavailable.empty(); }

std::vector<SystemInfo> Infos(const ScalingResults& results) {
  std::vector<SystemInfo> infos;
  for (const ScalingSystem& system : results.systems) infos.push_back(system.info);
  return infos;
}

std::string FormatEfficiency(const std::optional<Summary>& efficiency) {
  if (!efficiency) return "—";
  return fmt::format("{:.1f} ± {:.1f} %", efficiency->median * 100, efficiency->mad * 100);
}

std::string ModeTitle(const ScalingSystem& system) {
  return fmt::format("{} {}", system.info.name, system.together_name);
}

// Rows of text: the systems, then ours over each of the others.
std::vector<std::vector<std::string>> MakeRows(const ScalingResults& results) {
  const Cells cells = Summarize(results);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!Ran(results.systems[i])) continue;
    rows.push_back({SystemTitle(results.systems[i].info), FormatRate(cells[i].alone),
                    FormatRate(cells[i].together), FormatEfficiency(cells[i].efficiency),
                    FormatEfficiency(cells[i].in_step)});
  }
  for (std::size_t i = 1; i < cells.size(); ++i) {
    if (!Ran(results.systems[i])) continue;
    rows.push_back(
        {fmt::format("{} / {}", results.systems[0].info.name, results.systems[i].info.name),
         FormatRatio(cells[i].alone_speedup), FormatRatio(cells[i].together_speedup), "", ""});
  }
  return rows;
}

std::vector<std::string> Header() {
  return {"samples/s", "alone", "together", "together / alone", "in step / alone"};
}

std::vector<Tile> MakeTiles(const ScalingResults& results, const Cells& cells) {
  std::vector<Tile> tiles;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].efficiency) continue;
    tiles.push_back({fmt::format("{:.1f} %", cells[i].efficiency->median * 100),
                     fmt::format("efficiency of {}", ModeTitle(results.systems[i])),
                     "of the same workers alone, paired rounds"});
  }
  for (std::size_t i = 1; i < cells.size(); ++i) {
    if (!cells[i].together_speedup) continue;
    tiles.push_back({fmt::format("{:.2f} ×", cells[i].together_speedup->median),
                     fmt::format("speed of {}", ModeTitle(results.systems[i])),
                     "ours over it, both training together"});
  }
  return tiles;
}

std::optional<ChartValue> ToValue(const std::optional<Summary>& summary) {
  if (!summary) return std::nullopt;
  return ChartValue{summary->median, summary->min, summary->max};
}

PageSection SpeedSection(const ScalingResults& results, const Cells& cells) {
  Chart chart{.id = "throughput",
              .title = "Samples per second of all workers",
              .value_label = "samples per second",
              .categories = {"alone", "together"}};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!Ran(results.systems[i])) continue;
    chart.series.push_back({.name = results.systems[i].info.name,
                            .values = {ToValue(cells[i].alone), ToValue(cells[i].together)}});
    chart.description += fmt::format("{}: alone {}, together {}. ", results.systems[i].info.name,
                                     FormatRate(cells[i].alone), FormatRate(cells[i].together));
  }
  const HtmlTable table{
      .caption = "Samples per second of all workers, median ± median absolute deviation",
      .header = Header(),
      .rows = MakeRows(results),
      .emphasized_rows = 1};
  return {"Training speed",
          FigureHtml(BarChartSvg(chart, ChartSize::kWide), BarChartSvg(chart, ChartSize::kNarrow),
                     "Bars are medians; the whiskers span the slowest and the fastest round.") +
              TableHtml(table)};
}

PageSection EfficiencySection(const ScalingResults& results, const Cells& cells) {
  Chart chart{.id = "efficiency",
              .title = "Speed together relative to alone",
              .value_label = "speed together ÷ speed alone",
              .categories = {"efficiency"}};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].efficiency) continue;
    chart.series.push_back(
        {.name = ModeTitle(results.systems[i]), .values = {ToValue(cells[i].efficiency)}});
    chart.description += fmt::format("{}: {}. ", ModeTitle(results.systems[i]),
                                     FormatEfficiency(cells[i].efficiency));
  }
  if (chart.series.empty()) return {};
  return {
      "Efficiency",
      FigureHtml(DotChartSvg(chart, 1, ChartSize::kWide), DotChartSvg(chart, 1, ChartSize::kNarrow),
                 "At 1 cooperation costs nothing. The dot is the median of the per-round "
                 "ratios, the line spans all rounds.")};
}

PageSection MethodSection(const ScalingConfig& config) {
  return {
      "How it was measured",
      ParagraphHtml(fmt::format(
          "Every system runs twice with {0} workers: alone, as {0} independent processes at the "
          "same time, and together, as {0} processes that train one model on {1} samples a step. "
          "Both share memory bandwidth and caches, so the difference is what cooperation costs.",
          config.workers, config.workers * config.batch)) +
          ParagraphHtml(fmt::format(
              "All processes are started once and stay alive. In every round each team performs "
              "{} while the others wait blocked; the order flips from round to round. The command "
              "goes to all workers of a team before the first answer is read, and the time of a "
              "round is that of its slowest worker. Before the {} that count, each team warms up "
              "with {}. Outliers are never removed. In step: the lone workers' own times, as if "
              "each had waited for the slowest after every step; no synchronous training gets "
              "above "
              "that on a machine whose cores are not equally fast from step to step.",
              Plural(config.steps, "step"), Plural(config.rounds, "round"),
              Plural(config.warmup_steps, "step")))};
}

PageSection ProvenanceSection(const ScalingResults& results) {
  Facts facts = SourceFacts(results.provenance, results.machine);
  facts.emplace_back("Configuration", DescribeScaling(results.config));
  for (const ScalingSystem& system : results.systems) {
    facts.push_back(SystemFact(system.info));
    if (system.alone.max_rss_bytes == 0 || system.together.max_rss_bytes == 0) continue;
    facts.emplace_back(
        fmt::format("Memory of {}", system.info.name),
        fmt::format("{} alone, {} together, all workers", FormatBytes(system.alone.max_rss_bytes),
                    FormatBytes(system.together.max_rss_bytes)));
  }
  return {"Where it comes from", CodeHtml(results.provenance.command_line) + FactsHtml(facts)};
}

void AddRawRows(const std::string& name, const TeamRuns& runs, HtmlTable* table) {
  const std::size_t ranks = runs.rank_seconds.empty() ? 0 : runs.rank_seconds[0].size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::string>& row = table->rows.emplace_back();
    row.push_back(fmt::format("{}, worker {}", name, rank));
    for (const auto& round : runs.rank_seconds) row.push_back(fmt::format("{:.3f}", round[rank]));
  }
}

PageSection RawSection(const ScalingResults& results) {
  HtmlTable table{.caption = "Seconds of every round, in the order they were taken",
                  .header = {"System, worker"}};
  for (int round = 1; round <= results.config.rounds; ++round) {
    table.header.push_back(std::to_string(round));
  }
  for (const ScalingSystem& system : results.systems) {
    AddRawRows(system.info.name + " alone", system.alone, &table);
    AddRawRows(ModeTitle(system), system.together, &table);
  }
  return {"Raw timings", TableHtml(table)};
}

}  // namespace

std::string DescribeScaling(const ScalingConfig& config) {
  std::vector<std::string> sets;
  for (const std::vector<int>& cpus : config.cpus) {
    sets.push_back(fmt::format("{}", fmt::join(cpus, "+")));
  }
  return fmt::format(
      "{} of {}{}, batch {} each; median ± MAD of {} of {}", Plural(config.workers, "worker"),
      Plural(config.threads, "thread"),
      sets.empty() ? ", not pinned" : fmt::format(" on CPUs {}", fmt::join(sets, ", ")),
      config.batch, Plural(config.rounds, "round"), Plural(config.steps, "step"));
}

std::string ScalingTable(const ScalingResults& results) {
  std::string text = fmt::format("{} training; {}\n{} cores, load average {:.2f} at the start\n",
                                 results.config.model, DescribeScaling(results.config),
                                 results.machine.cores, results.machine.load_average);
  std::vector<std::vector<std::string>> rows = MakeRows(results);
  rows.insert(rows.begin(), Header());
  text += "\n" + AlignColumns(rows);
  std::string notes;
  for (const ScalingSystem& system : results.systems) {
    if (!Ran(system)) notes += "not available: " + system.info.unavailable + "\n";
  }
  for (const std::string& warning : ScalingWarnings(results)) notes += "warning: " + warning + "\n";
  if (results.partial) notes += "partial result: " + results.failure + "\n";
  return notes.empty() ? text : text + "\n" + notes;
}

std::string ScalingReport(const ScalingResults& results) {
  const Cells cells = Summarize(results);
  const bool measured = !cells.empty() && cells[0].alone;
  std::vector<PageSection> sections;
  if (measured) sections.push_back({"", TilesHtml(MakeTiles(results, cells))});
  sections.push_back(NoticeSection(results.partial ? results.failure : "", ScalingWarnings(results),
                                   Infos(results)));
  if (measured) {
    sections.push_back(SpeedSection(results, cells));
    sections.push_back(EfficiencySection(results, cells));
  }
  sections.push_back(MethodSection(results.config));
  sections.push_back(ProvenanceSection(results));
  if (measured) sections.push_back(RawSection(results));
  std::erase_if(sections, [](const PageSection& section) { return section.html.empty(); });
  return PageHtml(
      {.title = "Scaling on one host",
       .lead = fmt::format(
           "{} on CIFAR-10-sized images, {}, alone and together. {}, {}.",
           ModelTitle(results.config.model), Plural(results.config.workers, "worker"),
           OrUnknown(results.machine.cpu_model), FormatTime(results.provenance.started_unix)),
       .footer = "Made by paceline bench scaling. The figures behind this page are in "
                 "results.json next to it."},
      sections);
}

}  // namespace paceline::bench
