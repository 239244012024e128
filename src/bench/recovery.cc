#include "bench/recovery.h"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/rng.h"
#include "base/subprocess.h"
#include "job/audit.h"
#include "job/record_file.h"

namespace paceline::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto kLongest = 300s;  // for anything to happen; only against hanging

// Follows a run through its records.
class RunWatcher {
 public:
  explicit RunWatcher(const std::string& run) : events_(run + "/events.jsonl") {}

  // Waits until `reached` holds. Records are looked at every millisecond: nobody tells us.
  Status WaitFor(const char* what, const std::function<bool()>& reached, Subprocess& child,
                 const std::stop_token& stop) {
    const auto deadline = std::chrono::steady_clock::now() + kLongest;
    for (;;) {
      PACELINE_ASSIGN(const auto change,
                      events_.Poll([&](const job::Record& r) { Add(r); }, [] {}));
      (void)change;
      if (reached()) return {};
      if (stop.stop_requested()) return Status::Error(Code::kAborted, "stopped");
      const auto ended = child.Wait(0ms);
      if (ended.ok()) {
        return Status::Error(Code::kInternal, fmt::format("the training ended ({}) while waiting "
                                                          "for {}",
                                                          ended->Describe(), what));
      }
      if (std::chrono::steady_clock::now() > deadline) {
        return Status::Error(Code::kTimeout,
                             fmt::format("no {} within {} s", what, kLongest.count()));
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  std::uint64_t generation = 0;
  std::vector<job::ViewMember> members;
  std::uint64_t steps_in_view = 0;
  double last_step_at = 0, first_step_gap = 0;  // monotonic time of the writer
  std::vector<double> step_seconds;             // of this view

 private:
  void Add(const job::Record& record) {
    if (const auto* view = std::get_if<job::ViewRecord>(&record.body)) {
      generation = view->generation;
      members = view->members;
      steps_in_view = 0;
      step_seconds.clear();
    } else if (const auto* step = std::get_if<job::StepRecord>(&record.body)) {
      if (steps_in_view++ == 0) first_step_gap = record.time - last_step_at;
      last_step_at = record.time;
      step_seconds.push_back(step->seconds);
    }
  }

  job::RecordFile events_;
};

class RecoveryRun {
 public:
  RecoveryRun(const RecoveryOptions& options, RecoveryResults& results,
              const std::function<void(const std::string&)>& progress, const std::stop_token& stop)
      : options_(options),
        results_(results),
        progress_(progress),
        stop_(stop),
        run_(options.out_dir + "/run"),
        watcher_(run_),
        random_(options.config.seed, Purpose::kTest, 7, 0) {}

  Status Run() {
    std::error_code ignored;
    std::filesystem::remove_all(run_, ignored);
    PACELINE_ASSIGN(child_, Subprocess::Start({.argv = Command(run_, /*elastic=*/true, 100'000'000),
                                               .own_group = true}));
    for (int i = 0; i < options_.config.faults; ++i) PACELINE_TRY(Once(i));
    child_->Signal(SIGINT);
    PACELINE_ASSIGN(const ExitState state, child_->Wait(kLongest));
    if (!state.Success()) return Status::Error(Code::kInternal, "training: " + state.Describe());
    return Audit();
  }

  Status Compare() {
    const RecoveryConfig& config = options_.config;
    for (int round = 0; round < config.cost_rounds; ++round) {
      RecoveryResults::Pair pair;
      PACELINE_ASSIGN(pair.fixed, Rate(/*elastic=*/false));
      PACELINE_ASSIGN(pair.elastic, Rate(/*elastic=*/true));
      results_.cost.push_back(pair);
      progress_(fmt::format("round {}: fixed {:.1f}, elastic {:.1f} samples/s", round + 1,
                            pair.fixed, pair.elastic));
    }
    return {};
  }

 private:
  std::vector<std::string> Command(const std::string& run, bool elastic, int steps) const {
    const RecoveryConfig& config = options_.config;
    const std::string n = std::to_string(config.workers);
    std::vector<std::string> argv{options_.paceline,
                                  "train",
                                  config.model,
                                  "--workers",
                                  elastic ? "1:" + n : n,
                                  "--shards",
                                  n,
                                  "--batch",
                                  std::to_string(config.batch),
                                  "--steps",
                                  std::to_string(steps),
                                  "--checkpoint-every",
                                  "1000000",
                                  "--eval-every",
                                  "1000000",
                                  "--run",
                                  run,
                                  "--shared-memory",
                                  config.shared_memory,
                                  "--seed",
                                  std::to_string(config.seed),
                                  "--json",
                                  "--quiet"};
    if (elastic) {
      argv.insert(argv.end(), {"--heartbeat", fmt::format("{}", config.heartbeat), "--dead-timeout",
                               fmt::format("{}", config.dead_timeout), "--restarts", "1000000"});
    }
    return argv;
  }

  Status Once(int number) {
    const auto workers = static_cast<std::size_t>(options_.config.workers);
    constexpr std::uint64_t kSettled = 4;
    PACELINE_TRY(watcher_.WaitFor(
        "full group",
        [&] { return watcher_.members.size() == workers && watcher_.steps_in_view >= kSettled; },
        *child_, stop_));
    const double step = Summarize(watcher_.step_seconds).median;
    if (!results_.recoveries.empty()) {
      results_.recoveries.back().stall_of_joining = join_gap_ - step;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * step * random_.Uniform()));
    const job::ViewMember victim =
        watcher_.members[random_.Below(static_cast<std::uint32_t>(workers))];
    const std::uint64_t generation = watcher_.generation;
    const auto died = std::chrono::steady_clock::now();
    const bool hang = options_.config.fault == "stop";
    ::kill(static_cast<pid_t>(victim.pid), hang ? SIGSTOP : SIGKILL);
    PACELINE_TRY(watcher_.WaitFor(
        "next step", [&] { return watcher_.generation > generation && watcher_.steps_in_view > 0; },
        *child_, stop_));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - died;
    if (hang) ::kill(static_cast<pid_t>(victim.pid), SIGCONT);
    results_.recoveries.push_back({took.count(), watcher_.step_seconds.front(), std::nullopt});
    progress_(fmt::format(
        "{} of {}: worker {} (rank {}) {}; next step after {:.0f} ms, of which "
        "the step itself {:.0f} ms",
        number + 1, options_.config.faults, victim.member, victim.rank, hang ? "stopped" : "killed",
        1e3 * took.count(), 1e3 * results_.recoveries.back().step));
    const std::uint64_t survivors = watcher_.generation;
    PACELINE_TRY(watcher_.WaitFor(
        "replacement",
        [&] {
          return watcher_.generation > survivors && watcher_.members.size() == workers &&
                 watcher_.steps_in_view > 0;
        },
        *child_, stop_));
    join_gap_ = watcher_.first_step_gap;
    return {};
  }

  Status Audit() {
    PACELINE_ASSIGN(const job::LoadedRun run, job::LoadRun(run_));
    PACELINE_ASSIGN(const job::AuditReport audit, job::Audit(run));
    results_.audit = audit.ok() ? "OK" : fmt::format("{} violation(s)", audit.violations.count());
    return audit.ok() ? Status() : Status::Error(Code::kBadData, "audit: " + results_.audit);
  }

  Result<double> Rate(bool elastic) {
    const std::string run = options_.out_dir + (elastic ? "/elastic" : "/fixed");
    std::error_code ignored;
    std::filesystem::remove_all(run, ignored);
    PACELINE_ASSIGN(
        const CommandResult result,
        RunCommand({.argv = Command(run, elastic, options_.config.cost_steps)}, kLongest));
    if (!result.state.Success()) {
      return Status::Error(Code::kInternal, "training: " + result.state.Describe());
    }
    const auto json = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("samples_per_second")) {
      return Status::Error(Code::kInternal, "training printed no summary");
    }
    return json["samples_per_second"].get<double>();
  }

  const RecoveryOptions& options_;
  RecoveryResults& results_;
  const std::function<void(const std::string&)>& progress_;
  const std::stop_token stop_;
  std::string run_;
  RunWatcher watcher_;
  CounterRng random_;
  std::optional<Subprocess> child_;
  double join_gap_ = 0;
};

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
  if (config.fault != "kill" && config.fault != "stop") {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--fault is '{}'; it takes kill or stop", config.fault));
  }
  return {};
}

RecoveryResults RunRecovery(const RecoveryOptions& options, const job::Machine& machine,
                            const Provenance& provenance,
                            const std::function<void(const std::string&)>& progress,
                            const std::stop_token& stop) {
  RecoveryResults results{.provenance = provenance, .machine = machine, .config = options.config};
  RecoveryRun run(options, results, progress, stop);
  Status status = run.Run();
  if (status.ok()) status = run.Compare();
  if (!status.ok()) results.failure = status.message();
  return results;
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
  std::string text = fmt::format(
      "{}, {} workers, batch {} each, fault: {}; {} cores, load average {:.2f}\n{:<44} {:>8} {:>8} "
      "{:>8}\n",
      config.model, config.workers, config.batch, config.fault, results.machine.cores,
      results.machine.load_average, "milliseconds", "p50", "p95", "max");
  text += line("from the fault to the next committed step", Times(results));
  text += line("  of which the step itself", steps);
  text += line("stall of the others when a worker joins", Stalls(results));
  if (const auto ratio = Ratio(results)) {
    text += fmt::format("elastic / fixed throughput: {:.1f} % +- {:.1f} % ({} paired runs)\n",
                        100 * ratio->median, 100 * ratio->mad, results.cost.size());
  }
  text += "audit: " + (results.audit.empty() ? "not reached" : results.audit) + "\n";
  if (!results.failure.empty()) text += "failed: " + results.failure + "\n";
  return text;
}

}  // namespace paceline::bench
