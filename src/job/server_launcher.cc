#include "job/server_launcher.h"

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
#include "job/server_record.h"
#include "job/stop_signal.h"

namespace paceline::job {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kServerTick(20), kServerChaosTick(2);

class ServerLaunch {
 public:
  explicit ServerLaunch(const ServerLaunchOptions& options)
      : options_(options),
        events_(RunDirectory(options.run).EventFile()),
        out_of_memory_(options.cgroup_root) {
    servers_.resize(options.servers);
    for (Process& server : servers_) server.server = true;
    trainers_.resize(options.trainers);
    for (std::size_t i = 0; i < servers_.size() && i < options.endpoints.size(); ++i) {
      servers_[i].endpoint = options.endpoints[i];
    }
    if (!options.coordinator) return;
    coordinator_.emplace(
        CoordinatorChild::Options{.run = options.run,
                                  .streams = {.out_fd = options.out_fd, .err_fd = options.err_fd},
                                  .clock = options.clock,
                                  .spec = options.coordinator});
  }

  Result<int> Run() {
    PACELINE_TRY(ReadEvents());
    ends_before_ = ends_;
    for (std::uint64_t i = 0; i < servers_.size(); ++i) PACELINE_TRY(StartServer(i));
    while (!servers_stopping_ || CountRunning(servers_) + CountRunning(trainers_) > 0) {
      PACELINE_TRY(Turn());
    }
    if (!options_.quiet && restarts_used_ > 0) {
      Say(fmt::format("{} process{} started again", restarts_used_,
                      restarts_used_ == 1 ? " was" : "es were"));
    }
    return exit_code_;
  }

 private:
  struct Process {
    std::optional<RunningChild> child;
    Instant started{};
    std::optional<Instant> start_at;     // it is due to be started again
    std::optional<Instant> continue_at;  // SIGCONT
    RestartPause pause;
    bool server = false;
    std::string endpoint;  // of a server, once known
    bool Runs() const { return child && child->running(); }
  };

  Status StartServer(std::uint64_t index) {
    return Start(servers_[index], options_.server(index, servers_[index].endpoint), false);
  }

  Status StartTrainer(std::uint64_t rank) {
    ServerLaunchOptions::Places places;
    places.servers.reserve(servers_.size());
    for (const Process& server : servers_) places.servers.push_back(server.endpoint);
    if (coordinator_ && !complete_) places.coordinator = coordinator_->endpoint();
    return Start(trainers_[rank], options_.trainer(rank, places),
                 options_.inherit_first_stderr && rank == 0);
  }

  Status Start(Process& process, ChildSpec spec, bool inherit_stderr) {
    process.start_at.reset();
    process.continue_at.reset();
    process.started = options_.clock->Now();
    PACELINE_ASSIGN(RunningChild child,
                    RunningChild::Start(std::move(spec), {.out_fd = options_.out_fd,
                                                          .err_fd = options_.err_fd,
                                                          .inherit_stderr = inherit_stderr}));
    process.child.emplace(std::move(child));
    return {};
  }

  static std::size_t CountRunning(const std::vector<Process>& processes) {
    return static_cast<std::size_t>(std::ranges::count_if(processes, &Process::Runs));
  }

  void Say(std::string_view text) const {
    const std::string line = fmt::format("{}: {}\n", options_.program, text);
    [[maybe_unused]] const auto n = ::write(options_.err_fd, line.data(), line.size());
  }

  Status Turn() {
    WaitForNews();
    while (const int signal = signals_.Next()) OnSignal(signal);
    for (auto* processes : {&trainers_, &servers_}) {
      for (Process& process : *processes) {
        if (process.child) process.child->Forward();
      }
    }
    PACELINE_TRY(ReapTrainers());
    PACELINE_TRY(ReapServers());
    PACELINE_TRY(WatchCoordinator());
    PACELINE_TRY(StartDue());
    PACELINE_TRY(StartTrainersWhenReady());
    PACELINE_TRY(InjectDue());
    PACELINE_TRY(StopServersWhenDone());
    if (kill_at_ && options_.clock->Now() >= *kill_at_) KillLate();
    return {};
  }

  void WaitForNews() {
    std::vector<pollfd> polls;
    polls.reserve(3 * (servers_.size() + trainers_.size() + 1) + 1);
    for (const auto* processes : {&trainers_, &servers_}) {
      for (const Process& process : *processes) {
        if (process.child) process.child->AddPolls(polls);
      }
    }
    if (CoordinatorRuns()) coordinator_->child().AddPolls(polls);
    // Last: a signal that a child sent before it ended is then seen no later than its end.
    polls.push_back({signals_.fd(), POLLIN, 0});
    const milliseconds tick = next_chaos_ < options_.chaos.size() ? kServerChaosTick : kServerTick;
    ::poll(polls.data(), polls.size(), static_cast<int>(tick.count()));
  }

  Status ReapTrainers() {
    for (Process& trainer : trainers_) {
      if (!trainer.Runs() || !trainer.child->Ended()) continue;
      auto state = trainer.child->Reap();
      if (!state.ok()) return state.status().Wrap("waiting for a trainer");
      if (state->Success()) continue;
      if (ending_) {
        NoteLateFailure(*trainer.child, *state);
      } else {
        OnDeath(trainer, *state);
      }
    }
    return {};
  }

  bool CoordinatorRuns() const { return coordinator_ && coordinator_->running(); }

  Status WatchCoordinator() {
    if (!CoordinatorRuns()) return {};
    RunningChild& child = coordinator_->child();
    child.Forward();
    if (ending_ && CountRunning(trainers_) == 0) child.Stop(SIGTERM);  // nobody will come
    if (!child.Ended()) return {};
    auto state = child.Reap();
    if (!state.ok()) return state.status().Wrap("waiting for the coordinator");
    complete_ = state->Success();
    if (ending_ || complete_) return {};
    if (state->signal != 0) {
      Say(fmt::format("the coordinator {}; starting it again", DescribeEnd(*state)));
      return coordinator_->Start();
    }
    Say(fmt::format("the coordinator {}; ending the run: {}", DescribeEnd(*state),
                    child.error_line()));
    Fail(*state);
    return {};
  }

  Status ReapServers() {
    for (Process& server : servers_) {
      if (!server.Runs() || !server.child->Ended()) continue;
      auto state = server.child->Reap();
      if (!state.ok()) return state.status().Wrap("waiting for a server");
      if (!servers_stopping_) {
        OnDeath(server, *state);  // trainers that are saving need it as well
      } else if (!state->Success()) {
        NoteLateFailure(*server.child, *state);
      }
    }
    return {};
  }

  // Starts it again, or ends the run.
  void OnDeath(Process& process, const ExitState& state) {
    const bool out_of_memory = out_of_memory_.Explains(state);
    const std::string& label = process.child->spec().label;
    const std::string end = DescribeEnd(state, out_of_memory);
    const bool hopeless = IsHopeless(state);
    if (hopeless || restarts_used_ >= options_.restarts) {
      const std::string said = process.child->error_line();
      Say(fmt::format("{} {}; {}ending the run{}{}", label, end,
                      hopeless ? "" : "no restarts left, ", said.empty() ? "" : ": ", said));
      return Fail(state);
    }
    if (complete_ && !process.server) return;  // what it did is done; see StopServersWhenDone()
    ++restarts_used_;
    const Instant now = options_.clock->Now();
    process.start_at = now + process.pause.After(state, out_of_memory, now - process.started);
    if (!options_.quiet) Say(fmt::format("{} {}; starting it again", label, end));
  }

  void Fail(const ExitState& state) {
    if (exit_code_ == 0) {
      exit_code_ = state.Success() ? ExitCode(Code::kUnavailable) : ShellExitCode(state);
    }
    kill_at_ = options_.clock->Now() + options_.grace;
    StopTrainers(SIGTERM);
  }

  // Of a process that was asked to stop.
  void NoteLateFailure(const RunningChild& child, const ExitState& state) {
    const bool obeyed = state.signal == SIGTERM || state.signal == SIGINT;
    if (!obeyed && !child.killed()) {
      Say(fmt::format("{} {} while stopping", child.spec().label, DescribeEnd(state)));
    }
    if (exit_code_ != 0) return;
    exit_code_ = stop_signal_ != 0 && state.signal != 0 ? 128 + stop_signal_ : ShellExitCode(state);
  }

  Status StartDue() {
    const Instant now = options_.clock->Now();
    const auto due = [&](Process& process) {
      if (process.continue_at && now >= *process.continue_at) {
        process.continue_at.reset();
        if (process.Runs()) process.child->Send(SIGCONT);
      }
      return process.start_at && now >= *process.start_at;
    };
    for (std::uint64_t i = 0; i < servers_.size(); ++i) {
      if (due(servers_[i])) PACELINE_TRY(StartServer(i));
    }
    for (std::uint64_t i = 0; i < trainers_.size(); ++i) {
      if (due(trainers_[i])) PACELINE_TRY(StartTrainer(i));
    }
    return {};
  }

  Status StartTrainersWhenReady() {
    if (trainers_started_ || ending_) return {};
    for (std::uint64_t i = 0; i < servers_.size(); ++i) {
      Process& server = servers_[i];
      if (!server.endpoint.empty()) continue;
      const auto record = ReadServerRecord(options_.run, i);
      // A record of another process is of a server that was here before.
      const bool ready = record.ok() && server.Runs() && record->pid == server.child->pid();
      if (!ready) return {};
      server.endpoint = record->endpoint;
    }
    trainers_started_ = true;
    if (coordinator_) PACELINE_TRY(coordinator_->Start());
    const std::uint64_t count = coordinator_ ? options_.start_trainers : trainers_.size();
    for (std::uint64_t i = 0; i < count; ++i) PACELINE_TRY(StartTrainer(i));
    return {};
  }

  Status ReadEvents() {
    const auto on_record = [&](const Record& record) {
      if (const auto* step = std::get_if<StepRecord>(&record.body)) step_ = step->step;
      const auto* end = std::get_if<EndRecord>(&record.body);
      if (end != nullptr && !end->interrupted) ++ends_;
    };
    return events_.Poll(on_record, [] {}).status();
  }

  // Steps as whoever leads records them; where nobody has yet, the version of server 0.
  Status InjectDue() {
    if (next_chaos_ >= options_.chaos.size() || !trainers_started_ || ending_) return {};
    PACELINE_TRY(ReadEvents());
    std::uint64_t now = step_;
    if (const auto record = ReadServerRecord(options_.run, 0); step_ == 0 && record.ok()) {
      now = record->version;
    }
    while (next_chaos_ < options_.chaos.size() && options_.chaos[next_chaos_].step <= now) {
      PACELINE_TRY(Inject(options_.chaos[next_chaos_++]));
    }
    return {};
  }

  Status Inject(const ChaosEvent& event) {
    Say("chaos: " + event.Describe());
    if (event.kind == ChaosKind::kJoin) {
      const auto free = std::ranges::find_if(
          trainers_, [](const Process& p) { return !p.Runs() && !p.start_at; });
      return free == trainers_.end()
                 ? Status()
                 : StartTrainer(static_cast<std::uint64_t>(free - trainers_.begin()));
    }
    if (event.coordinator) {
      if (CoordinatorRuns()) coordinator_->child().Send(SIGKILL);
      return {};
    }
    Process& victim = event.server ? servers_[event.worker] : trainers_[event.worker];
    if (!victim.Runs()) return {};
    if (event.kind == ChaosKind::kStop) {
      victim.child->Send(SIGSTOP);
      victim.continue_at = options_.clock->Now() + event.duration;
    } else {
      victim.child->Send(event.kind == ChaosKind::kLeave ? SIGTERM : SIGKILL);
    }
    return {};
  }

  void OnSignal(int signal) {
    if (stop_signal_ != 0) {
      if (signal == SIGINT) KillAll();
      return;
    }
    stop_signal_ = signal;
    Say(fmt::format("{}: the trainers save and stop, then the servers; Ctrl-C again kills them",
                    SignalName(signal)));
    StopTrainers(signal);
  }

  void StopTrainers(int signal) {
    ending_ = true;
    for (Process& trainer : trainers_) {
      trainer.start_at.reset();
      // SIGTERM would only ask a trainer to leave an elastic run to the others.
      if (trainer.Runs()) trainer.child->Stop(coordinator_ ? SIGINT : signal);
    }
  }

  Status StopServersWhenDone() {
    const bool pending = !trainers_started_ || std::ranges::any_of(trainers_, [](const Process& p) {
      return p.start_at.has_value();
    });
    if (servers_stopping_ || CountRunning(trainers_) > 0 || (pending && !ending_)) return {};
    if (CoordinatorRuns()) return {};  // others may join
    if (complete_ && !ending_) {
      PACELINE_ASSIGN(const bool ended, EndIsWritten());
      if (!ended) return {};
    }
    ending_ = true;
    servers_stopping_ = true;
    kill_at_ = options_.clock->Now() + options_.server_grace;
    for (Process& server : servers_) {
      server.start_at.reset();
      if (server.Runs()) server.child->Stop(SIGTERM);
    }
    return {};
  }

  // Else the trainer that kept the records has died after the last sample: another one writes it.
  Result<bool> EndIsWritten() {
    PACELINE_TRY(ReadEvents());
    if (ends_ > ends_before_) return true;
    if (restarts_used_ >= options_.restarts) {
      Say("nobody has written the end of the run, and no restarts are left");
      exit_code_ = ExitCode(Code::kUnavailable);
      return true;
    }
    ++restarts_used_;
    Say("nobody has written the end of the run; starting a trainer for that");
    PACELINE_TRY(StartTrainer(0));
    return false;
  }

  void KillLate() {
    kill_at_.reset();
    const milliseconds grace = servers_stopping_ ? options_.server_grace : options_.grace;
    for (Process& process : servers_stopping_ ? servers_ : trainers_) {
      if (!process.Runs()) continue;
      Say(fmt::format("{} did not stop within {} s", process.child->spec().label,
                      ToSeconds(grace)));
      process.child->Kill();
    }
  }

  void KillAll() {
    for (auto* processes : {&trainers_, &servers_}) {
      for (Process& process : *processes) {
        if (process.Runs()) process.child->Kill();
      }
    }
    if (CoordinatorRuns()) coordinator_->child().Kill();
    StopTrainers(SIGTERM);
    servers_stopping_ = true;
    kill_at_.reset();
  }

  const ServerLaunchOptions& options_;
  const StopSignals signals_;  // before the children, so that none of them is missed
  std::vector<Process> servers_;
  std::vector<Process> trainers_;
  std::optional<CoordinatorChild> coordinator_;  // of an elastic run
  RecordFile events_;
  OutOfMemoryWatch out_of_memory_;
  bool trainers_started_ = false;
  bool complete_ = false;                     // says the coordinator
  std::uint64_t step_ = 0;                    // steps done, as recorded
  std::uint64_t ends_ = 0, ends_before_ = 0;  // records of a run's end
  std::size_t next_chaos_ = 0;
  std::int64_t restarts_used_ = 0;
  int stop_signal_ = 0;
  bool ending_ = false;            // no trainer is started any more
  bool servers_stopping_ = false;  // no server is started any more
  std::optional<Instant> kill_at_;
  int exit_code_ = 0;
};

}  // namespace

Result<int> RunServerLauncher(const ServerLaunchOptions& options) {
  return ServerLaunch(options).Run();
}

}  // namespace paceline::job
