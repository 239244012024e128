#include "bench/scaling_results.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/summary.h"

namespace paceline::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kScalingSchema = 1;

Json SummaryJson(const std::optional<Summary>& summary) {
  if (!summary) return nullptr;
  return {{"median", summary->median}, {"mad", summary->mad},   {"min", summary->min},
          {"max", summary->max},       {"mean", summary->mean}, {"count", summary->count}};
}

Json ConfigJson(const ScalingConfig& config) {
  return {{"model", config.model}, {"workers", config.workers},
          {"batch", config.batch}, {"threads", config.threads},
          {"cpus", config.cpus},   {"rounds", config.rounds},
          {"steps", config.steps}, {"warmup_steps", config.warmup_steps}};
}

Json RunsJson(const TeamRuns& runs) {
  return {{"rank_seconds", runs.rank_seconds},
          {"step_seconds", runs.step_seconds},
          {"samples", runs.samples},
          {"max_rss_bytes", runs.max_rss_bytes},
          {"last_loss", runs.last_loss ? Json(*runs.last_loss) : Json(nullptr)}};
}

Json SystemJson(const ScalingSystem& system) {
  return {{"name", system.info.name},
          {"version", system.info.version},
          {"params", system.info.params},
          {"tensors", system.info.tensors},
          {"unavailable", system.info.unavailable},
          {"together_name", system.together_name},
          {"alone", RunsJson(system.alone)},
          {"together", RunsJson(system.together)}};
}

Json CellsJson(const ScalingResults& results) {
  Json systems = Json::array();
  const std::vector<ScalingCell> cells = Summarize(results);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const ScalingCell& cell = cells[i];
    systems.push_back({{"name", results.systems[i].info.name},
                       {"alone",
                        {{"samples_per_second", SummaryJson(cell.alone)},
                         {"speedup", SummaryJson(cell.alone_speedup)}}},
                       {"together",
                        {{"samples_per_second", SummaryJson(cell.together)},
                         {"speedup", SummaryJson(cell.together_speedup)}}},
                       {"efficiency", SummaryJson(cell.efficiency)},
                       {"in_step", SummaryJson(cell.in_step)}});
  }
  return systems;
}

std::optional<Summary> OrNone(const Summary& summary) {
  return summary.count > 0 ? std::optional(summary) : std::nullopt;
}

void WarnAboutSpread(const ScalingSystem& system, const ScalingCell& cell,
                     std::vector<std::string>* warnings) {
  constexpr double kWideSpread = 0.05;
  struct Row {
    const std::optional<Summary>& rate;
    std::string name;
  };
  for (const Row& row : {Row{cell.alone, "alone"}, Row{cell.together, system.together_name}}) {
    if (!row.rate || row.rate->RelativeSpread() <= kWideSpread) continue;
    warnings->push_back(fmt::format("{} {}: the spread is {:.0f} % of the median.",
                                    system.info.name, row.name, row.rate->RelativeSpread() * 100));
  }
}

}  // namespace

std::vector<double> TeamRuns::Rates() const {
  std::vector<double> rates;
  for (const std::vector<double>& ranks : rank_seconds) {
    if (ranks.empty()) continue;
    const double slowest = *std::max_element(ranks.begin(), ranks.end());
    if (slowest > 0) rates.push_back(static_cast<double>(samples) / slowest);
  }
  return rates;
}

std::vector<double> TeamRuns::SummedRates() const {
  std::vector<double> rates;
  for (const std::vector<double>& ranks : rank_seconds) {
    double sum = 0;
    const double each = static_cast<double>(samples) / static_cast<double>(ranks.size());
    for (const double seconds : ranks) sum += seconds > 0 ? each / seconds : 0;
    if (sum > 0) rates.push_back(sum);
  }
  return rates;
}

std::vector<double> TeamRuns::RatesInStep() const {
  std::vector<double> rates;
  for (const std::vector<std::vector<double>>& ranks : step_seconds) {
    std::vector<double> slowest;
    for (const std::vector<double>& steps : ranks) {
      if (steps.empty()) return {};
      slowest.resize(std::max(slowest.size(), steps.size()));
      for (std::size_t i = 0; i < steps.size(); ++i) slowest[i] = std::max(slowest[i], steps[i]);
    }
    const double seconds = std::accumulate(slowest.begin(), slowest.end(), 0.0);
    if (seconds > 0) rates.push_back(static_cast<double>(samples) / seconds);
  }
  return rates;
}

std::vector<ScalingCell> Summarize(const ScalingResults& results) {
  std::vector<ScalingCell> cells;
  for (std::size_t i = 0; i < results.systems.size(); ++i) {
    const std::vector<double> alone = results.systems[i].alone.SummedRates();
    const std::vector<double> together = results.systems[i].together.Rates();
    ScalingCell& cell = cells.emplace_back();
    cell.alone = OrNone(paceline::Summarize(alone));
    cell.together = OrNone(paceline::Summarize(together));
    cell.efficiency = OrNone(PairedRatio(together, alone));
    cell.in_step = OrNone(PairedRatio(results.systems[i].alone.RatesInStep(), alone));
    if (i == 0) continue;
    const ScalingSystem& ours = results.systems[0];
    cell.alone_speedup = OrNone(PairedRatio(ours.alone.SummedRates(), alone));
    cell.together_speedup = OrNone(PairedRatio(ours.together.Rates(), together));
  }
  return cells;
}

std::vector<std::string> ScalingWarnings(const ScalingResults& results) {
  std::vector<std::string> warnings = MachineWarnings(results.machine);
  const ScalingConfig& config = results.config;
  const int threads = config.workers * config.threads;
  if (results.machine.cores > 0 && threads > results.machine.cores) {
    warnings.push_back(fmt::format("{} threads share {} cores: they wait for each other's turns.",
                                   threads, results.machine.cores));
  } else if (config.cpus.empty()) {
    warnings.emplace_back("The workers are not pinned: the kernel may move them.");
  }
  const std::vector<ScalingCell> cells = Summarize(results);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    WarnAboutSpread(results.systems[i], cells[i], &warnings);
    if (!cells[i].efficiency || cells[i].efficiency->median <= 1) continue;
    // Cooperation is no gain: somebody else slowed one of the lone workers down.
    warnings.push_back(
        fmt::format("{}: together is faster than alone, so the machine was not quiet.",
                    results.systems[i].info.name));
  }
  return warnings;
}

std::string ToJson(const ScalingResults& results, JsonStyle style) {
  Json systems = Json::array();
  for (const ScalingSystem& system : results.systems) systems.push_back(SystemJson(system));
  const Json json = {{"schema", kScalingSchema},
                     {"name", "scaling"},
                     {"partial", results.partial},
                     {"failure", results.failure},
                     {"command_line", results.provenance.command_line},
                     {"started_unix", results.provenance.started_unix},
                     {"commit", results.provenance.commit},
                     {"dirty", results.provenance.dirty},
                     {"machine", Json::parse(results.machine.Json().Text())},
                     {"config", ConfigJson(results.config)},
                     {"systems", std::move(systems)},
                     {"warnings", ScalingWarnings(results)},
                     {"summary", CellsJson(results)}};
  // A system may print any bytes as its name; NaN becomes null in dump().
  return json.dump(style == JsonStyle::kIndented ? 2 : -1, ' ', false,
                   Json::error_handler_t::replace);
}

}  // namespace paceline::bench
