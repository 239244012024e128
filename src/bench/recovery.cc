#include "bench/recovery.h"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/subprocess.h"
#include "bench/recovery_cost.h"
#include "job/audit.h"
#include "job/record_file.h"

namespace paceline::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto kLongestWait = 300s;    // for anything to happen; only against hanging
constexpr std::uint64_t kSettled = 4;  // steps of a full group before the next fault
// Between cuts, which have to be planned: long enough for a replacement to come.
constexpr int kStepsBetweenCuts = 60;
constexpr int kEndless = 100'000'000;  // steps
constexpr double kPatient = 600;       // seconds of silence while the other has its turn

// Follows a run through its records.
class RunWatcher {
 public:
  explicit RunWatcher(const std::string& run) : events_(run + "/events.jsonl") {}

  // Waits until `reached` holds. Records are looked at every millisecond: nobody tells us.
  Status WaitFor(const char* what, const std::function<bool()>& reached, Subprocess& child,
                 const std::stop_token& stop) {
    const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
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
                             fmt::format("no {} within {} s", what, kLongestWait.count()));
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  std::uint64_t generation = 0;
  std::vector<job::ViewMember> members;
  std::uint64_t steps_in_view = 0;
  double last_step_at = 0, first_step_gap = 0;  // monotonic time of the writer
  // When we saw the last step of the view before.
  std::chrono::steady_clock::time_point last_step_before;
  std::vector<double> step_seconds;  // of this view

 private:
  void Add(const job::Record& record) {
    if (const auto* view = std::get_if<job::ViewRecord>(&record.body)) {
      generation = view->generation;
      last_step_before = last_step_seen_;
      members = view->members;
      steps_in_view = 0;
      step_seconds.clear();
    } else if (const auto* step = std::get_if<job::StepRecord>(&record.body)) {
      if (steps_in_view++ == 0) first_step_gap = record.time - last_step_at;
      last_step_at = record.time;
      last_step_seen_ = std::chrono::steady_clock::now();
      step_seconds.push_back(step->seconds);
    }
  }

  job::RecordFile events_;
  std::chrono::steady_clock::time_point last_step_seen_;
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
    if (options_.config.faults == 0) return {};
    std::error_code ignored;
    std::filesystem::remove_all(run_, ignored);
    std::vector<std::string> argv = Command(run_, /*elastic=*/true, options_.config.dead_timeout);
    if (options_.config.fault == "cut") argv.insert(argv.end(), {"--chaos", Cuts()});
    PACELINE_ASSIGN(child_, Subprocess::Start({.argv = argv, .own_group = true}));
    for (int i = 0; i < options_.config.faults; ++i) PACELINE_TRY(Once(i));
    child_->Signal(SIGINT);
    PACELINE_ASSIGN(const ExitState state, child_->Wait(kLongestWait));
    if (!state.Success()) return Status::Error(Code::kInternal, "training: " + state.Describe());
    return Audit();
  }

  Status Compare() {
    const std::string fixed = options_.out_dir + "/fixed", elastic = options_.out_dir + "/elastic";
    for (const std::string& run : {fixed, elastic}) {
      std::error_code ignored;
      std::filesystem::remove_all(run, ignored);
    }
    return CompareByTurns({Command(fixed, /*elastic=*/false, kPatient), fixed},
                          {Command(elastic, /*elastic=*/true, kPatient), elastic},
                          options_.config.cost_rounds, options_.config.cost_steps, progress_, stop_,
                          results_.cost);
  }

 private:
  std::vector<std::string> Command(const std::string& run, bool elastic,
                                   double dead_timeout) const {
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
                                  std::to_string(kEndless),
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
                               fmt::format("{}", dead_timeout), "--restarts", "1000000"});
    }
    return argv;
  }

  // The worker that is cut off is back only after the others have given it up.
  std::string Cuts() const {
    std::string spec;
    for (int i = 0; i < options_.config.faults; ++i) {
      spec += fmt::format("{}cut=worker:{}@step{}:{}ms", i == 0 ? "" : ",",
                          i % options_.config.workers, (i + 1) * kStepsBetweenCuts,
                          static_cast<int>(1e3 * (options_.config.dead_timeout + 1)));
    }
    return spec;
  }

  Status Once(int number) {
    const auto workers = static_cast<std::size_t>(options_.config.workers);
    PACELINE_TRY(watcher_.WaitFor(
        "full group",
        [&] { return watcher_.members.size() == workers && watcher_.steps_in_view >= kSettled; },
        *child_, stop_));
    const double step = paceline::Summarize(watcher_.step_seconds).median;
    if (!results_.recoveries.empty()) {
      results_.recoveries.back().stall_of_joining = join_gap_ - step;
    }
    PACELINE_ASSIGN(const double took, options_.config.fault == "cut" ? AwaitCut() : Strike(step));
    results_.recoveries.push_back({took, watcher_.step_seconds.front(), std::nullopt});
    progress_(fmt::format("{} of {}: next step after {:.0f} ms, of which the step itself {:.0f} ms",
                          number + 1, options_.config.faults, 1e3 * took,
                          1e3 * results_.recoveries.back().step));
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

  Status AwaitStepOfNextView() {
    return watcher_.WaitFor(
        "next step",
        [this, generation = watcher_.generation] {
          return watcher_.generation > generation && watcher_.steps_in_view > 0;
        },
        *child_, stop_);
  }

  // Kills or stops a worker at a random moment; returns the seconds until training went on.
  Result<double> Strike(double step) {
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * step * random_.Uniform()));
    const auto victim = static_cast<pid_t>(
        watcher_.members[random_.Below(static_cast<std::uint32_t>(watcher_.members.size()))].pid);
    const bool hang = options_.config.fault == "stop";
    const auto struck = std::chrono::steady_clock::now();
    ::kill(victim, hang ? SIGSTOP : SIGKILL);
    PACELINE_TRY(AwaitStepOfNextView());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - struck;
    if (hang) ::kill(victim, SIGCONT);
    return took.count();
  }

  // A worker loses its network when a step begins, that is, when the one before has ended.
  Result<double> AwaitCut() {
    PACELINE_TRY(AwaitStepOfNextView());
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - watcher_.last_step_before;
    return took.count();
  }

  Status Audit() {
    PACELINE_ASSIGN(const job::LoadedRun run, job::LoadRun(run_));
    PACELINE_ASSIGN(const job::AuditReport audit, job::Audit(run));
    results_.audit = audit.ok() ? "OK" : fmt::format("{} violation(s)", audit.violations.count());
    return audit.ok() ? Status() : Status::Error(Code::kBadData, "audit: " + results_.audit);
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

}  // namespace

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

}  // namespace paceline::bench
