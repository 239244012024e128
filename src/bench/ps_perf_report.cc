// Table and JSON of `paceline perf ps`.
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/stats.h"
#include "base/text_table.h"
#include "bench/perf_case.h"
#include "bench/ps_perf.h"
#include "bench/summary.h"

namespace paceline::bench {

namespace {

using Json = nlohmann::json;

double GigabytesPerSecond(const PsMeasure& measure) {
  const double seconds = paceline::Summarize(measure.seconds).median;
  return seconds == 0 ? 0 : static_cast<double>(measure.bytes) / seconds * 1e-9;
}

// Bandwidth over that of moving the same bytes without a server, from paired rounds; for dense
// values only, which have the bound's size.
std::optional<Summary> ShareOfBound(const PsPerfResults& results, const PsMeasure& measure) {
  if (measure.what != "dense push" && measure.what != "dense pull") return std::nullopt;
  const std::string way = measure.way == "tcp" ? "tcp loopback" : "memcpy";
  for (const PsMeasure& bound : results.measures) {
    if (bound.what != "bound" || bound.way != way) continue;
    std::vector<double> for_as_many = bound.seconds;
    for (double& seconds : for_as_many) {
      seconds *= static_cast<double>(measure.bytes) / static_cast<double>(bound.bytes);
    }
    return PairedRatio(for_as_many, measure.seconds);
  }
  return std::nullopt;
}

std::string Milliseconds(const Summary& summary) {
  const double median = summary.median * 1e3;
  const int decimals = median >= 10 ? 1 : 3;
  return fmt::format("{:.{}f} ± {:.{}f}", median, decimals, summary.mad * 1e3, decimals);
}

std::vector<std::string> PsWarnings(const PsPerfResults& results) {
  std::vector<std::string> warnings = MachineWarnings(results.machine);
  const int processes = results.config.servers + results.config.trainers;
  if (processes > results.machine.cores) {
    warnings.push_back(fmt::format("{} servers and {} trainers share {} cores",
                                   results.config.servers, results.config.trainers,
                                   results.machine.cores));
  }
  return warnings;
}

Json ConfigJson(const PsPerfConfig& config) {
  return {{"servers", config.servers},
          {"workers", config.trainers},
          {"dense_bytes", config.dense_bytes},
          {"rows", config.rows},
          {"dim", config.dim},
          {"ids", config.ids},
          {"pulls", config.small_pulls},
          {"rounds", config.rounds},
          {"wal", config.wal}};
}

Json MeasureJson(const PsPerfResults& results, const PsMeasure& measure) {
  const Summary summary = paceline::Summarize(measure.seconds);
  const auto share = ShareOfBound(results, measure);
  const bool has_bytes = measure.bytes > 0;
  return {{"what", measure.what},
          {"way", measure.way},
          {"bytes", has_bytes ? Json(measure.bytes) : Json()},
          {"seconds", measure.seconds},
          {"median", summary.median},
          {"mad", summary.mad},
          {"gb_per_second", has_bytes ? Json(GigabytesPerSecond(measure)) : Json()},
          {"share_of_bound", share ? Json(share->median) : Json()}};
}

}  // namespace

std::string ToJson(const PsPerfResults& results, JsonStyle style) {
  Json measures = Json::array();
  for (const PsMeasure& measure : results.measures) {
    measures.push_back(MeasureJson(results, measure));
  }
  const Json root{{"version", PACELINE_VERSION},
                  {"name", "perf ps"},
                  {"start_unix", results.provenance.started_unix},
                  {"args", results.provenance.command_line},
                  {"commit", results.provenance.commit},
                  {"dirty", results.provenance.dirty},
                  {"machine", Json::parse(results.machine.Json().Text())},
                  {"config", ConfigJson(results.config)},
                  {"warnings", PsWarnings(results)},
                  {"results", std::move(measures)}};
  return root.dump(style == JsonStyle::kIndented ? 1 : -1, ' ', false,
                   Json::error_handler_t::replace);
}

std::string PsPerfTable(const PsPerfResults& results) {
  std::vector<std::vector<std::string>> rows{{"", "way", "bytes", "ms", "GB/s", "of the bound"}};
  for (const PsMeasure& measure : results.measures) {
    const auto share = ShareOfBound(results, measure);
    rows.push_back(
        {measure.what, measure.way, measure.bytes > 0 ? FormatSize(measure.bytes) : "",
         Milliseconds(paceline::Summarize(measure.seconds)),
         measure.bytes > 0 ? fmt::format("{:.2f}", GigabytesPerSecond(measure)) : "",
         share ? fmt::format("{:.0f} ± {:.0f} %", share->median * 100, share->mad * 100) : ""});
  }
  std::string text = AlignColumns(rows, "ll");
  text += fmt::format("\n{} rounds, medians ± MAD; bytes of all trainers together\n",
                      results.config.rounds);
  for (const std::string& warning : PsWarnings(results)) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace paceline::bench
