#include "job/elastic_launcher.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "job/coordinator_child.h"
#include "job/failure_report.h"
#include "job/record_file.h"
#include "job/restart_policy.h"
#include "job/run_dir.h"
#include "job/stop_signal.h"

namespace paceline::job {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick(20), kChaosTick(2);

class ElasticLaunch {
 public:
  explicit ElasticLaunch(const ElasticLaunchOptions& options)
      : options_(options),
        coordinator_({.run = options.run,
                      .streams = Streams(options),
                      .clock = options.clock,
                      .spec = options.coordinator}),
        events_(RunDirectory(options.run).EventFile()),
        out_of_memory_(options.cgroup_root) {
    slots_.resize(options.slots);
  }

  Result<int> Run() {
    PACELINE_TRY(coordinator_.Start());
    for (std::uint64_t slot = 0; slot < options_.start_workers; ++slot) {
      PACELINE_TRY(StartWorker(slot));
    }
    while (coordinator_.running() || CountWorkers() > 0) PACELINE_TRY(Turn());
    return Finish();
  }

 private:
  struct Slot {
    std::optional<RunningChild> child;
    Instant started{};
    std::optional<Instant> start_at;     // a replacement is due
    std::optional<Instant> continue_at;  // SIGCONT
    RestartPause pause;
    bool Runs() const { return child && child->running(); }
  };

  Status StartWorker(std::uint64_t index) {
    Slot& slot = slots_[index];
    slot.start_at.reset();
    slot.continue_at.reset();
    slot.started = options_.clock->Now();
    PACELINE_ASSIGN(RunningChild child,
                    RunningChild::Start(options_.worker(index, coordinator_.endpoint(), step_),
                                        Streams(options_)));
    slot.child.emplace(std::move(child));
    return {};
  }

  static ChildStreams Streams(const ElasticLaunchOptions& options) {
    return {.out_fd = options.out_fd, .err_fd = options.err_fd};
  }

  std::size_t CountWorkers() const {
    return static_cast<std::size_t>(std::ranges::count_if(slots_, &Slot::Runs));
  }

  void Say(std::string_view text) const {
    const std::string line = fmt::format("{}: {}\n", options_.program, text);
    [[maybe_unused]] const auto n = ::write(options_.err_fd, line.data(), line.size());
  }

  Status Turn() {
    std::vector<pollfd> polls;
    coordinator_.child().AddPolls(polls);
    for (const Slot& slot : slots_) {
      if (slot.child) slot.child->AddPolls(polls);
    }
    polls.push_back({signals_.fd(), POLLIN, 0});
    const bool chaos = next_chaos_ < options_.chaos.size();
    ::poll(polls.data(), polls.size(), static_cast<int>((chaos ? kChaosTick : kTick).count()));
    while (const int signal = signals_.Next()) OnSignal(signal);
    coordinator_.child().Forward();
    for (Slot& slot : slots_) {
      if (slot.child) slot.child->Forward();
    }
    PACELINE_TRY(ReapWorkers());
    // Nobody is left, and nobody will come: the coordinator must not wait for them.
    if (ending_ && CountWorkers() == 0) coordinator_.child().Stop(SIGTERM);
    if (coordinator_.child().Ended()) PACELINE_TRY(OnCoordinatorEnded());
    PACELINE_TRY(StartDue());
    if (chaos) PACELINE_TRY(InjectDue());
    if (kill_at_ && options_.clock->Now() >= *kill_at_) KillAll();
    return {};
  }

  Status ReapWorkers() {
    for (Slot& slot : slots_) {
      if (!slot.Runs() || !slot.child->Ended()) continue;
      auto state = slot.child->Reap();
      if (!state.ok()) return state.status().Wrap("waiting for a worker");
      if (state->Success()) continue;  // it finished, or left
      OnDeath(slot, *state);
    }
    return {};
  }

  void OnDeath(Slot& slot, const ExitState& state) {
    const bool out_of_memory = out_of_memory_.Explains(state);
    const std::string end = DescribeEnd(state, out_of_memory);
    const std::string said = slot.child->error_line();
    if (ending_) return;
    if (IsHopeless(state)) {
      exit_code_ = state.code;
      Say(fmt::format("{} {}; ending the run{}{}", slot.child->spec().label, end,
                      said.empty() ? "" : ": ", said));
      return StopAll();
    }
    ++deaths_;
    if (restarts_used_ >= options_.restarts) {
      Say(fmt::format("{} {}; no restarts left", slot.child->spec().label, end));
      return;
    }
    ++restarts_used_;
    const Instant now = options_.clock->Now();
    slot.start_at = now + slot.pause.After(state, out_of_memory, now - slot.started);
    if (!options_.quiet) Say(fmt::format("{} {}; starting another", slot.child->spec().label, end));
  }

  Status OnCoordinatorEnded() {
    auto state = coordinator_.child().Reap();
    if (!state.ok()) return state.status().Wrap("waiting for the coordinator");
    if (ending_ || state->Success() || (state->signal == 0)) {
      if (exit_code_ == 0 && !state->Success()) {
        exit_code_ = stop_signal_ != 0 ? 128 + stop_signal_ : ShellExitCode(*state);
      }
      ending_ = true;
      // Workers have been released; they save if they must, and end.
      if (!kill_at_) kill_at_ = options_.clock->Now() + options_.grace;
      return {};
    }
    Say(fmt::format("the coordinator was ended by {}; starting it again",
                    SignalName(state->signal)));
    return coordinator_.Start();
  }

  Status StartDue() {
    const Instant now = options_.clock->Now();
    for (std::uint64_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (slot.continue_at && now >= *slot.continue_at) {
        slot.continue_at.reset();
        if (slot.Runs()) slot.child->Send(SIGCONT);
      }
      if (!ending_ && slot.start_at && now >= *slot.start_at) PACELINE_TRY(StartWorker(i));
    }
    return {};
  }

  Status InjectDue() {
    PACELINE_ASSIGN(const auto change, events_.Poll(
                                           [&](const Record& record) {
                                             const auto* step =
                                                 std::get_if<StepRecord>(&record.body);
                                             if (step != nullptr) step_ = step->step;
                                           },
                                           [] {}));
    (void)change;
    while (next_chaos_ < options_.chaos.size() && options_.chaos[next_chaos_].step <= step_ &&
           !ending_) {
      PACELINE_TRY(Inject(options_.chaos[next_chaos_++]));
    }
    return {};
  }

  Status Inject(const ChaosEvent& event) {
    Say("chaos: " + event.Describe());
    if (event.kind == ChaosKind::kJoin) {
      const auto free = std::ranges::find_if(slots_, [](const Slot& s) { return !s.Runs(); });
      if (free == slots_.end()) return {};
      return StartWorker(static_cast<std::uint64_t>(free - slots_.begin()));
    }
    if (event.coordinator) {
      coordinator_.child().Send(SIGKILL);
      return {};
    }
    Slot& slot = slots_[event.worker];
    if (!slot.Runs()) return {};
    switch (event.kind) {
      case ChaosKind::kKill: slot.child->Send(SIGKILL); break;
      case ChaosKind::kLeave: slot.child->Send(SIGTERM); break;
      case ChaosKind::kStop:
        slot.child->Send(SIGSTOP);
        slot.continue_at = options_.clock->Now() + event.duration;
        break;
      default: break;  // a cut is up to the worker, which was told when it started
    }
    return {};
  }

  void OnSignal(int signal) {
    if (stop_signal_ != 0) {
      if (signal == SIGINT) KillAll();
      return;
    }
    stop_signal_ = signal;
    Say(fmt::format("{}: the workers save and stop; Ctrl-C again kills them", SignalName(signal)));
    StopWorkers();
    ending_ = true;
  }

  void StopAll() {
    ending_ = true;
    kill_at_ = options_.clock->Now() + options_.grace;
    StopWorkers();
  }

  // SIGTERM would only ask a worker to leave the run to the others.
  void StopWorkers() {
    for (Slot& slot : slots_) {
      slot.start_at.reset();
      if (slot.Runs()) slot.child->Stop(SIGINT);
    }
  }

  void KillAll() {
    kill_at_.reset();
    for (Slot& slot : slots_) {
      if (slot.Runs()) slot.child->Kill();
    }
    if (coordinator_.running()) coordinator_.child().Kill();
  }

  int Finish() const {
    if (!options_.quiet && deaths_ > 0) {
      Say(fmt::format("{} worker{} died and {} replaced", deaths_, deaths_ == 1 ? "" : "s",
                      restarts_used_));
    }
    return exit_code_;
  }

  const ElasticLaunchOptions& options_;
  const StopSignals signals_;  // before the children, so that none of them is missed
  CoordinatorChild coordinator_;
  std::vector<Slot> slots_;
  RecordFile events_;
  OutOfMemoryWatch out_of_memory_;
  std::uint64_t step_ = 0;  // steps done, as recorded
  std::size_t next_chaos_ = 0;
  std::int64_t restarts_used_ = 0;
  std::int64_t deaths_ = 0;
  int stop_signal_ = 0;
  bool ending_ = false;  // nobody is started any more
  std::optional<Instant> kill_at_;
  int exit_code_ = 0;
};

}  // namespace

Result<int> RunElasticLauncher(const ElasticLaunchOptions& options) {
  return ElasticLaunch(options).Run();
}

}  // namespace paceline::job
