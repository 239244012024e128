#include "bench/results.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "bench/json_reader.h"
#include "bench/summary.h"

namespace paceline::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kSingleNodeSchema = 1;
constexpr char kName[] = "single-node";

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json ToJson(const std::optional<Summary>& summary) {
  if (!summary) return nullptr;
  return {{"median", summary->median}, {"mad", summary->mad},   {"min", summary->min},
          {"max", summary->max},       {"mean", summary->mean}, {"count", summary->count}};
}

Json ToJson(const SingleNodeConfig& config) {
  return {{"model", config.model},
          {"threads", config.threads},
          {"cpu", OrNull(config.cpu)},
          {"rounds", config.rounds},
          {"samples_per_round", config.samples_per_round},
          {"warmup_steps", config.warmup_steps}};
}

Json ToJson(const BatchRuns& batch) {
  Json systems = Json::array();
  for (const SystemRuns& runs : batch.systems) {
    systems.push_back({{"seconds", runs.seconds},
                       {"samples", runs.samples},
                       {"max_rss_bytes", runs.max_rss_bytes},
                       {"last_loss", OrNull(runs.last_loss)}});
  }
  return {{"batch", batch.batch}, {"systems", std::move(systems)}};
}

Json SummaryToJson(const SingleNodeResults& results) {
  Json batches = Json::array();
  for (const BatchSummary& batch : Summarize(results)) {
    Json systems = Json::array();
    for (std::size_t i = 0; i < batch.cells.size() && i < results.systems.size(); ++i) {
      const Cell& cell = batch.cells[i];
      systems.push_back({{"name", results.systems[i].name},
                         {"samples_per_second", ToJson(cell.samples_per_second)},
                         {"outliers", cell.outliers},
                         {"max_rss_bytes", OrNull(cell.max_rss_bytes)},
                         {"speedup", ToJson(cell.speedup)},
                         {"memory_ratio", OrNull(cell.memory_ratio)}});
    }
    batches.push_back({{"batch", batch.batch}, {"systems", std::move(systems)}});
  }
  return batches;
}

// Values come from a file: a figure outside int is wrong data, not undefined behaviour.
int ToInt(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, std::numeric_limits<int>::min(),
                                                   std::numeric_limits<int>::max()));
}

job::Machine ReadMachineFields(JsonReader json) {
  job::Machine machine;
  machine.cpu_model = json.Text("cpu_model");
  std::istringstream flags(json.Text("cpu_flags"));
  for (std::string flag; flags >> flag;) machine.cpu_flags.push_back(flag);
  machine.cores = ToInt(json.Integer("cores"));
  machine.cores_online = ToInt(json.Integer("cores_online"));
  machine.memory_bytes = json.Integer("memory_bytes");
  machine.memory_available_bytes = json.Integer("memory_available_bytes");
  machine.os = json.Text("os");
  machine.kernel = json.Text("kernel");
  machine.governor = json.Text("governor");
  machine.load_average = json.Number("load_average");
  machine.swap_on = json.Flag("swap_on");
  return machine;
}

SingleNodeConfig ReadConfig(JsonReader json) {
  SingleNodeConfig config;
  config.model = json.Text("model");
  config.threads = ToInt(json.Integer("threads"));
  if (const auto cpu = json.OptionalNumber("cpu")) config.cpu = ToInt(json.Integer("cpu"));
  config.rounds = ToInt(json.Integer("rounds"));
  config.samples_per_round = ToInt(json.Integer("samples_per_round"));
  config.warmup_steps = ToInt(json.Integer("warmup_steps"));
  return config;
}

BatchRuns ReadBatch(JsonReader json) {
  BatchRuns batch{.batch = ToInt(json.Integer("batch"))};
  for (JsonReader& system : json.Objects("systems")) {
    batch.systems.push_back({.seconds = system.Numbers("seconds"),
                             .samples = system.Integer("samples"),
                             .max_rss_bytes = system.Integer("max_rss_bytes"),
                             .last_loss = system.OptionalNumber("last_loss")});
  }
  return batch;
}

}  // namespace

int StepsPerRound(const SingleNodeConfig& config, int batch) {
  return std::max(1, (config.samples_per_round + batch - 1) / batch);
}

std::string ToJson(const SingleNodeResults& results, JsonStyle style) {
  Json systems = Json::array();
  for (const SystemInfo& system : results.systems) {
    systems.push_back({{"name", system.name},
                       {"version", system.version},
                       {"params", system.params},
                       {"tensors", system.tensors},
                       {"unavailable", system.unavailable}});
  }
  Json batches = Json::array();
  for (const BatchRuns& batch : results.batches) batches.push_back(ToJson(batch));
  const Json json = {{"schema", kSingleNodeSchema},
                     {"name", kName},
                     {"partial", results.partial},
                     {"failure", results.failure},
                     {"command_line", results.provenance.command_line},
                     {"started_unix", results.provenance.started_unix},
                     {"commit", results.provenance.commit},
                     {"dirty", results.provenance.dirty},
                     {"machine", Json::parse(results.machine.Json().Text())},
                     {"config", ToJson(results.config)},
                     {"systems", std::move(systems)},
                     {"batches", std::move(batches)},
                     {"warnings", Warnings(results)},
                     {"summary", SummaryToJson(results)}};
  // A system may print any bytes as its name; NaN becomes null in dump().
  return json.dump(style == JsonStyle::kIndented ? 2 : -1, ' ', false,
                   Json::error_handler_t::replace);
}

Result<SingleNodeResults> SingleNodeFromJson(std::string_view text) {
  auto parsed = JsonReader::Parse(text);
  if (!parsed.ok()) return Status::Error(Code::kBadData, parsed.status().message());
  JsonReader& json = *parsed;
  if (json.Integer("schema") != kSingleNodeSchema || json.Text("name") != kName) {
    return Status::Error(Code::kBadData,
                         fmt::format("not a {} result of schema {}", kName, kSingleNodeSchema));
  }
  SingleNodeResults results;
  results.partial = json.Flag("partial");
  results.failure = json.Text("failure");
  results.provenance = {.command_line = json.Text("command_line"),
                        .started_unix = json.Integer("started_unix"),
                        .commit = json.Text("commit"),
                        .dirty = json.Flag("dirty")};
  results.machine = ReadMachineFields(json.Object("machine"));
  results.config = ReadConfig(json.Object("config"));
  for (JsonReader& system : json.Objects("systems")) {
    results.systems.push_back({.name = system.Text("name"),
                               .version = system.Text("version"),
                               .params = system.Integer("params"),
                               .tensors = system.Integer("tensors"),
                               .unavailable = system.Text("unavailable")});
  }
  for (JsonReader& batch : json.Objects("batches")) results.batches.push_back(ReadBatch(batch));
  if (!json.status().ok()) return Status::Error(Code::kBadData, json.status().message());
  for (const BatchRuns& batch : results.batches) {
    if (batch.systems.size() != results.systems.size()) {
      return Status::Error(Code::kBadData,
                           fmt::format("batch {} has {} systems instead of {}", batch.batch,
                                       batch.systems.size(), results.systems.size()));
    }
  }
  return results;
}

}  // namespace paceline::bench
