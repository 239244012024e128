#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/recovery.h"

namespace paceline::bench {

namespace {

std::vector<double> Times(const RecoveryResults& results) {
  std::vector<double> times;
  for (const Recovery& recovery : results.recoveries) times.push_back(recovery.to_next_step);
  return times;
}

std::vector<double> Stalls(const RecoveryResults& results) {
  std::vector<double> times;
  for (const Recovery& recovery : results.recoveries) {
    if (recovery.stall_of_joining) times.push_back(*recovery.stall_of_joining);
  }
  return times;
}

std::optional<Summary> Ratio(const RecoveryResults& results) {
  std::vector<double> fixed, elastic;
  for (const auto& pair : results.cost) {
    fixed.push_back(pair.fixed);
    elastic.push_back(pair.elastic);
  }
  if (fixed.empty()) return std::nullopt;
  return PairedRatio(elastic, fixed);
}

nlohmann::ordered_json Quantiles(const std::vector<double>& times) {
  if (times.empty()) return nullptr;
  return {{"count", times.size()},
          {"p50", Quantile(times, 0.5)},
          {"p95", Quantile(times, 0.95)},
          {"max", Quantile(times, 1)}};
}

}  // namespace

Status Validate(const RecoveryConfig& config) {
  if (config.workers < 2) {
    return Status::Error(Code::kInvalidArgument, "--workers must be at least 2: somebody survives");
  }
  if (config.fault != "kill" && config.fault != "stop" && config.fault != "cut") {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--fault is '{}'; it takes kill, stop or cut", config.fault));
  }
  if (config.faults < 0 || config.cost_rounds < 0) {
    return Status::Error(Code::kInvalidArgument, "--faults and --cost-rounds are 0 or more");
  }
  if (config.cost_rounds > 0 && config.cost_steps < 1) {
    return Status::Error(Code::kInvalidArgument, "--cost-steps must be at least 1");
  }
  return {};
}

std::string ToJson(const RecoveryResults& results) {
  const RecoveryConfig& config = results.config;
  nlohmann::ordered_json json{{"schema", 1},
                              {"name", "recovery"},
                              {"command_line", results.provenance.command_line},
                              {"started_unix", results.provenance.started_unix},
                              {"commit", results.provenance.commit},
                              {"dirty", results.provenance.dirty},
                              {"machine",
                               {{"cpu", results.machine.cpu_model},
                                {"cores", results.machine.cores},
                                {"load_average", results.machine.load_average}}},
                              {"config",
                               {{"model", config.model},
                                {"workers", config.workers},
                                {"batch", config.batch},
                                {"fault", config.fault},
                                {"faults", config.faults},
                                {"heartbeat", config.heartbeat},
                                {"dead_timeout", config.dead_timeout},
                                {"shared_memory", config.shared_memory},
                                {"seed", config.seed},
                                {"cost_rounds", config.cost_rounds},
                                {"cost_steps", config.cost_steps}}},
                              {"recoveries", nlohmann::ordered_json::array()},
                              {"cost", nlohmann::ordered_json::array()},
                              {"audit", results.audit},
                              {"failure", results.failure}};
  for (const Recovery& recovery : results.recoveries) {
    nlohmann::ordered_json one{{"to_next_step", recovery.to_next_step}, {"step", recovery.step}};
    one["stall_of_joining"] = nullptr;
    if (recovery.stall_of_joining) one["stall_of_joining"] = *recovery.stall_of_joining;
    json["recoveries"].push_back(one);
  }
  for (const auto& pair : results.cost) {
    json["cost"].push_back({{"fixed", pair.fixed}, {"elastic", pair.elastic}});
  }
  json["summary"] = {{"to_next_step", Quantiles(Times(results))},
                     {"stall_of_joining", Quantiles(Stalls(results))},
                     {"elastic_over_fixed", nullptr}};
  if (const auto ratio = Ratio(results)) {
    json["summary"]["elastic_over_fixed"] = {{"median", ratio->median}, {"mad", ratio->mad}};
  }
  return json.dump(2);
}

std::string RecoveryTable(const RecoveryResults& results) {
  const auto line = [](const char* name, const std::vector<double>& times) {
    if (times.empty()) return std::string();
    return fmt::format("{:<44} {:>8.0f} {:>8.0f} {:>8.0f}   ({} times)\n", name,
                       1e3 * Quantile(times, 0.5), 1e3 * Quantile(times, 0.95),
                       1e3 * Quantile(times, 1), times.size());
  };
  std::vector<double> steps;
  for (const Recovery& recovery : results.recoveries) steps.push_back(recovery.step);
  const RecoveryConfig& config = results.config;
  std::string text =
      fmt::format("{}, {} workers, batch {} each, fault: {}; {} cores, load average {:.2f}\n",
                  config.model, config.workers, config.batch, config.fault, results.machine.cores,
                  results.machine.load_average);
  if (config.faults > 0) {
    text += fmt::format("{:<44} {:>8} {:>8} {:>8}\n", "milliseconds", "p50", "p95", "max");
  }
  text += line("from the fault to the next committed step", Times(results));
  text += line("  of which the step itself", steps);
  text += line("stall of the others when a worker joins", Stalls(results));
  if (const auto ratio = Ratio(results)) {
    text += fmt::format("elastic / fixed throughput: {:.1f} % +- {:.1f} % ({} turns each)\n",
                        100 * ratio->median, 100 * ratio->mad, results.cost.size());
  }
  if (config.faults > 0) {
    text += "audit: " + (results.audit.empty() ? "not reached" : results.audit) + "\n";
  }
  if (!results.failure.empty()) text += "failed: " + results.failure + "\n";
  return text;
}

}  // namespace paceline::bench
