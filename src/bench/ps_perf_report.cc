// Table and JSON of `paceline perf ps`.
#include <array>
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

using SortedJson = nlohmann::json;

double GigabytesPerSecond(const PsMeasure& measure) {
  const double seconds = paceline::Summarize(measure.seconds).median;
  return seconds == 0 ? 0 : static_cast<double>(measure.bytes) / seconds * 1e-9;
}

const PsMeasure* Find(const PsPerfResults& results, const std::string& what,
                      const std::string& way) {
  for (const PsMeasure& measure : results.measures) {
    if (measure.what == what && measure.way == way) return &measure;
  }
  return nullptr;
}

bool IsDense(const PsMeasure& measure) { return measure.what.starts_with("dense"); }
bool IsPush(const PsMeasure& measure) { return measure.what.find("push") != std::string::npos; }

// How fast a measure is next to something else, from paired rounds: bytes per second over its own.
struct Comparison {
  const char* name;  // in JSON
  const char* head;  // of the column
  bool is_factor;    // else a share
  std::optional<Summary> (*ratio)(const PsPerfResults&, const PsMeasure&);
};

std::vector<double> SecondsForAsMany(const PsMeasure& bound, const PsMeasure& measure) {
  std::vector<double> scaled = bound.seconds;
  for (double& seconds : scaled) {
    seconds *= static_cast<double>(measure.bytes) / static_cast<double>(bound.bytes);
  }
  return scaled;
}

std::optional<Summary> OfBound(const PsPerfResults& results, const PsMeasure& measure) {
  const bool ours = measure.way == "shared memory" || measure.way == "tcp";
  if (!IsDense(measure) || !ours) return std::nullopt;
  const PsMeasure* bound = Find(results, "bound", measure.way == "tcp" ? "tcp loopback" : "memcpy");
  if (bound == nullptr) return std::nullopt;
  return PairedRatio(SecondsForAsMany(*bound, measure), measure.seconds);
}

// A push also contains what the optimiser reads and writes.
std::optional<Summary> OfBoundAndSgd(const PsPerfResults& results, const PsMeasure& measure) {
  const PsMeasure* copy = Find(results, "bound", "memcpy");
  const PsMeasure* sgd = Find(results, "bound", "sgd");
  if (!IsDense(measure) || !IsPush(measure) || measure.way != "shared memory" || copy == nullptr ||
      sgd == nullptr) {
    return std::nullopt;
  }
  std::vector<double> both = SecondsForAsMany(*copy, measure);
  const double pushes = static_cast<double>(results.config.trainers);
  for (std::size_t i = 0; i < both.size(); ++i) both[i] += pushes * sgd->seconds[i];
  return PairedRatio(both, measure.seconds);
}

template <const char* Way>
std::optional<Summary> OfIperf(const PsPerfResults& results, const PsMeasure& measure) {
  const PsMeasure* iperf = Find(results, "bound", Way);
  if (!IsDense(measure) || measure.way != "tcp" || iperf == nullptr) return std::nullopt;
  return PairedRatio(SecondsForAsMany(*iperf, measure), measure.seconds);
}

template <const char* Way>
std::optional<Summary> Times(const PsPerfResults& results, const PsMeasure& measure) {
  const PsMeasure* grpc = Find(results, measure.what, Way);
  if (grpc == nullptr || grpc == &measure) return std::nullopt;
  return PairedRatio(SecondsForAsMany(*grpc, measure), measure.seconds);
}

constexpr std::array<Comparison, 6> kComparisons{
    {{"of_bound", "of the bound", false, OfBound},
     {"of_bound_and_sgd", "of bound + sgd", false, OfBoundAndSgd},
     {"of_iperf3", "of iperf3", false, OfIperf<kIperf>},
     {"of_iperf3_unpaced", "of iperf3 unpaced", false, OfIperf<kIperfUnpaced>},
     {"times_grpc", "times gRPC", true, Times<kGrpc>},
     {"times_grpc_message", "times gRPC message", true, Times<kGrpcMessage>}}};

std::string RatioText(const Comparison& comparison, const std::optional<Summary>& ratio) {
  if (!ratio) return "";
  if (comparison.is_factor) return fmt::format("{:.1f} ± {:.1f}", ratio->median, ratio->mad);
  return fmt::format("{:.0f} ± {:.0f} %", ratio->median * 100, ratio->mad * 100);
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

SortedJson ConfigJson(const PsPerfConfig& config) {
  return {{"servers", config.servers},
          {"workers", config.trainers},
          {"dense_bytes", config.dense_bytes},
          {"rows", config.rows},
          {"dim", config.dim},
          {"ids", config.ids},
          {"pulls", config.small_pulls},
          {"rounds", config.rounds},
          {"wal", config.wal},
          {"peers", config.peers}};
}

SortedJson MeasureJson(const PsPerfResults& results, const PsMeasure& measure) {
  const Summary summary = paceline::Summarize(measure.seconds);
  const bool has_bytes = measure.bytes > 0;
  SortedJson json{
      {"what", measure.what},
      {"way", measure.way},
      {"bytes", has_bytes ? SortedJson(measure.bytes) : SortedJson()},
      {"seconds", measure.seconds},
      {"median", summary.median},
      {"mad", summary.mad},
      {"gb_per_second", has_bytes ? SortedJson(GigabytesPerSecond(measure)) : SortedJson()}};
  for (const Comparison& comparison : kComparisons) {
    const auto ratio = comparison.ratio(results, measure);
    json[comparison.name] =
        ratio ? SortedJson{{"median", ratio->median}, {"mad", ratio->mad}} : SortedJson();
  }
  return json;
}

}  // namespace

std::string ToJson(const PsPerfResults& results, JsonStyle style) {
  SortedJson measures = SortedJson::array();
  for (const PsMeasure& measure : results.measures) {
    measures.push_back(MeasureJson(results, measure));
  }
  const SortedJson root{{"version", PACELINE_VERSION},
                        {"name", "perf ps"},
                        {"start_unix", results.provenance.started_unix},
                        {"args", results.provenance.command_line},
                        {"commit", results.provenance.commit},
                        {"dirty", results.provenance.dirty},
                        {"machine", SortedJson::parse(results.machine.Json().Text())},
                        {"config", ConfigJson(results.config)},
                        {"warnings", PsWarnings(results)},
                        {"skipped", results.skipped},
                        {"results", std::move(measures)}};
  return root.dump(style == JsonStyle::kIndented ? 1 : -1, ' ', false,
                   SortedJson::error_handler_t::replace);
}

std::string PsPerfTable(const PsPerfResults& results) {
  std::vector<std::vector<std::string>> rows{{"", "way", "bytes", "ms", "GB/s"}};
  for (const Comparison& comparison : kComparisons) rows[0].emplace_back(comparison.head);
  for (const PsMeasure& measure : results.measures) {
    std::vector<std::string> row{
        measure.what, measure.way, measure.bytes > 0 ? FormatSize(measure.bytes) : "",
        Milliseconds(paceline::Summarize(measure.seconds)),
        measure.bytes > 0 ? fmt::format("{:.2f}", GigabytesPerSecond(measure)) : ""};
    for (const Comparison& comparison : kComparisons) {
      row.push_back(RatioText(comparison, comparison.ratio(results, measure)));
    }
    rows.push_back(std::move(row));
  }
  std::string text = AlignColumns(rows, "ll");
  text += fmt::format("\n{} rounds, medians ± MAD; bytes of all trainers together\n",
                      results.config.rounds);
  for (const std::string& peer : results.skipped) text += "skipped: " + peer + "\n";
  for (const std::string& warning : PsWarnings(results)) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace paceline::bench
