#include "bench/perf_results.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "job/run_dir.h"

namespace paceline::bench {

namespace {

using Json = nlohmann::ordered_json;

std::string Timestamp(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm utc{};
  char text[32] = "";
  if (::gmtime_r(&time, &utc) == nullptr) return "";
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

double Median(const std::vector<double>& values) { return paceline::Summarize(values).median; }

Json SummaryOrNull(const std::optional<Summary>& summary) {
  if (!summary) return nullptr;
  return {{"median", summary->median}, {"mad", summary->mad},   {"min", summary->min},
          {"max", summary->max},       {"mean", summary->mean}, {"count", summary->count}};
}

Json ConfigJson(const PerfConfig& config) {
  return {{"collective", PerfOpName(config.op)},
          {"workers", config.workers},
          {"minbytes", config.sizes.min_bytes},
          {"maxbytes", config.sizes.max_bytes},
          {"stepfactor", config.sizes.factor},
          {"iters", config.iterations},
          {"warmup_iters", config.warmup},
          {"rounds", config.rounds},
          {"check", config.check},
          {"network", config.network}};
}

Json PointJson(const PerfResults& results, std::size_t engine, std::size_t index) {
  const PerfConfig& config = results.config;
  const PerfPoint& point = results.engines[engine].points[index];
  const PerfShape shape =
      ShapeOf(config.op, point.requested_bytes, static_cast<std::uint64_t>(config.workers));
  const Json wrong = point.wrong < 0 ? Json(nullptr) : Json(point.wrong);
  return {{"size", shape.bytes},
          {"count", shape.count},
          {"type", shape.type},
          {"redop", shape.redop},
          {"root", std::to_string(shape.root)},
          {"out_of_place", nullptr},
          {"in_place",
           {{"time", Median(point.time_us)},
            {"alg_bw", AlgBandwidth(config, point)},
            {"bus_bw", BusBandwidth(config, point)},
            {"nwrong", wrong}}},
          {"actual_iterations", point.iterations},
          {"experiment_name", fmt::format("{}-{}-{}", PerfOpName(config.op),
                                          results.engines[engine].name, FormatSize(shape.bytes))},
          {"time_summary", SummaryOrNull(paceline::Summarize(point.time_us))},
          {"times_us", point.time_us},
          {"min_us", paceline::Summarize(point.min_us).min},
          {"max_us", paceline::Summarize(point.max_us).max},
          {"p50_us", Median(point.p50_us)},
          {"p95_us", Median(point.p95_us)},
          {"p99_us", Median(point.p99_us)},
          {"sent_bytes", point.sent_bytes == 0 ? Json(nullptr) : Json(point.sent_bytes)},
          {"speedup", SummaryOrNull(Speedup(results, engine, index))}};
}

Json EngineJson(const PerfResults& results, std::size_t index) {
  const EngineResults& engine = results.engines[index];
  Json points = Json::array();
  for (std::size_t i = 0; i < engine.points.size(); ++i) {
    points.push_back(PointJson(results, index, i));
  }
  const std::int64_t wrong = WrongElements(engine);
  return {{"engine", engine.name},
          {"engine_version", engine.version},
          {"unavailable", engine.unavailable},
          {"max_rss_bytes", engine.max_rss_bytes == 0 ? Json(nullptr) : Json(engine.max_rss_bytes)},
          {"results", std::move(points)},
          {"out_of_bounds", {{"count", wrong}, {"okay", wrong == 0}}},
          {"average_bus_bandwidth",
           {{"bandwidth", AverageBusBandwidth(results.config, engine)}, {"okay", nullptr}}}};
}

void WarnAboutSpread(const PerfResults& results, const EngineResults& engine,
                     std::vector<std::string>* warnings) {
  constexpr double kWideSpread = 0.2;
  std::vector<std::string> wide;
  for (const PerfPoint& point : engine.points) {
    const Summary summary = paceline::Summarize(point.time_us);
    if (summary.RelativeSpread() > kWideSpread) wide.push_back(FormatSize(point.requested_bytes));
  }
  if (!wide.empty()) {
    warnings->push_back(fmt::format("{}: the spread exceeds {:.0f} % of the median at {}.",
                                    engine.name, kWideSpread * 100, fmt::join(wide, ", ")));
  }
  if (const std::int64_t wrong = WrongElements(engine); wrong > 0) {
    warnings->push_back(fmt::format("{}: {} elements of {} are wrong.", engine.name, wrong,
                                    PerfOpName(results.config.op)));
  }
}

}  // namespace

PerfStep StepOf(const PerfConfig& config, std::size_t bytes) {
  return {.op = config.op,
          .bytes = bytes,
          .iterations = config.iterations > 0 ? config.iterations : DefaultIterations(bytes),
          .warmup = config.warmup,
          .check = config.check};
}

Status PerfPoint::AddRound(std::span<const PerfSample> samples) {
  const PerfSample* slowest = nullptr;
  std::int64_t wrong_now = 0;
  std::uint64_t sent_now = 0;
  for (const PerfSample& sample : samples) {
    if (sample.iterations < 1 || sample.iterations != samples[0].iterations ||
        !(sample.seconds > 0)) {
      return Status::Error(
          Code::kProtocol,
          fmt::format("rank {} made {} iterations in {} s, rank {} made {}", sample.rank,
                      sample.iterations, sample.seconds, samples[0].rank, samples[0].iterations));
    }
    if (slowest == nullptr || sample.seconds > slowest->seconds) slowest = &sample;
    wrong_now = sample.wrong < 0 || wrong_now < 0 ? -1 : wrong_now + sample.wrong;
    sent_now += sample.sent_bytes;
  }
  if (slowest == nullptr) return Status::Error(Code::kProtocol, "no rank measured anything");
  time_us.push_back(slowest->seconds / slowest->iterations * 1e6);
  min_us.push_back(slowest->min_us);
  p50_us.push_back(slowest->p50_us);
  p95_us.push_back(slowest->p95_us);
  p99_us.push_back(slowest->p99_us);
  max_us.push_back(slowest->max_us);
  iterations = slowest->iterations;
  if (wrong_now >= 0) wrong = std::max<std::int64_t>(0, wrong) + wrong_now;
  sent_bytes = sent_now;
  return {};
}

double AlgBandwidth(const PerfConfig& config, const PerfPoint& point) {
  const PerfShape shape =
      ShapeOf(config.op, point.requested_bytes, static_cast<std::uint64_t>(config.workers));
  const double us = Median(point.time_us);
  return us > 0 ? static_cast<double>(shape.bytes) / 1e9 / (us * 1e-6) : 0;
}

double BusBandwidth(const PerfConfig& config, const PerfPoint& point) {
  return AlgBandwidth(config, point) *
         BusFactor(config.op, static_cast<std::uint64_t>(config.workers));
}

double AverageBusBandwidth(const PerfConfig& config, const EngineResults& engine) {
  double sum = 0;
  for (const PerfPoint& point : engine.points) sum += BusBandwidth(config, point);
  return engine.points.empty() ? 0 : sum / static_cast<double>(engine.points.size());
}

std::int64_t WrongElements(const EngineResults& engine) {
  std::int64_t wrong = 0;
  for (const PerfPoint& point : engine.points) wrong += std::max<std::int64_t>(0, point.wrong);
  return wrong;
}

std::optional<std::size_t> ReferenceEngine(const PerfResults& results) {
  for (std::size_t i = 0; i < results.engines.size(); ++i) {
    if (results.engines[i].unavailable.empty()) return i;
  }
  return std::nullopt;
}

std::optional<Summary> Speedup(const PerfResults& results, std::size_t engine, std::size_t index) {
  const auto reference = ReferenceEngine(results);
  if (!reference || *reference == engine) return std::nullopt;
  const auto& ours = results.engines[*reference].points;
  const auto& theirs = results.engines[engine].points;
  if (index >= ours.size() || index >= theirs.size()) return std::nullopt;
  const Summary ratio = PairedRatio(theirs[index].time_us, ours[index].time_us);
  if (ratio.count == 0) return std::nullopt;
  return ratio;
}

std::vector<std::string> PerfWarnings(const PerfResults& results) {
  std::vector<std::string> warnings;
  const job::Machine& machine = results.machine;
  if (machine.cores > 0 && results.config.workers > machine.cores) {
    warnings.push_back(fmt::format("{} workers share {} cores: they wait for each other's turns.",
                                   results.config.workers, machine.cores));
  }
  constexpr double kBusyPerCore = 0.5;
  if (machine.cores > 0 && machine.load_average > kBusyPerCore * machine.cores) {
    warnings.push_back(
        fmt::format("The machine was busy before the start: load average {:.2f} on {} cores.",
                    machine.load_average, machine.cores));
  }
  for (const EngineResults& engine : results.engines) WarnAboutSpread(results, engine, &warnings);
  return warnings;
}

std::string ToJson(const PerfResults& results, JsonStyle style) {
  Json engines = Json::array();
  for (std::size_t i = 0; i < results.engines.size(); ++i) {
    engines.push_back(EngineJson(results, i));
  }
  const Json root{{"version", PACELINE_VERSION},
                  {"name", "perf"},
                  {"start_time", Timestamp(results.provenance.started_unix)},
                  {"end_time", Timestamp(results.ended_unix)},
                  {"args", results.provenance.command_line},
                  {"commit", results.provenance.commit},
                  {"dirty", results.provenance.dirty},
                  {"partial", results.partial},
                  {"errors", results.failure},
                  {"machine", Json::parse(results.machine.Json().Text())},
                  {"config", ConfigJson(results.config)},
                  {"warnings", PerfWarnings(results)},
                  {"engines", std::move(engines)}};
  return root.dump(style == JsonStyle::kIndented ? 1 : -1, ' ', false,
                   Json::error_handler_t::replace);
}

Status WritePerfJson(const std::string& path, const PerfResults& results) {
  return job::WriteTextFile(path, ToJson(results) + "\n");
}

}  // namespace paceline::bench
