#include "job/launcher.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "job/cgroup.h"
#include "job/failure_report.h"
#include "job/restart_policy.h"
#include "job/stop_signal.h"

namespace paceline::job {

namespace {

std::string ThisHost() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return *name == '\0' ? "localhost" : name;
}

// The children of one launch. Used once, by one thread.
class LaunchRun {
 public:
  explicit LaunchRun(const LauncherOptions& options)
      : options_(options), oom_kills_before_(OomKills(options.cgroup_root)) {}

  Status Start(std::vector<ChildSpec> specs);
  Status WaitForAll();
  // Prints the failure block if there is something to explain.
  int Finish() const;

 private:
  std::size_t CountRunning() const;
  int PollTimeoutMs() const;
  Status WaitOnce();
  void OnSignal(int signal);
  Status ReapEnded();
  void OnFailure(const RunningChild& child, const ExitState& state);
  void KillAll(std::string_view why);
  void Say(std::string_view text) const;

  const LauncherOptions& options_;
  const StopSignals signals_;  // before the children, so that none of them is missed
  const std::optional<std::int64_t> oom_kills_before_;
  std::vector<RunningChild> children_;
  std::vector<RankFailure> failures_;  // in the order of observation
  int stop_signal_ = 0;                // that the user sent
  bool failing_ = false;               // a child failed, the others have been asked to stop
  std::optional<Instant> kill_at_;     // end of the grace period
};

void LaunchRun::Say(std::string_view text) const {
  const std::string line = fmt::format("{}: {}\n", options_.program, text);
  [[maybe_unused]] const auto n = ::write(options_.err_fd, line.data(), line.size());
}

Status LaunchRun::Start(std::vector<ChildSpec> specs) {
  children_.reserve(specs.size());
  for (ChildSpec& spec : specs) {
    const bool inherit = options_.inherit_first_stderr && spec.rank == Rank(0);
    PACELINE_ASSIGN(RunningChild child,
                    RunningChild::Start(std::move(spec), {.out_fd = options_.out_fd,
                                                          .err_fd = options_.err_fd,
                                                          .inherit_stderr = inherit}));
    children_.push_back(std::move(child));
  }
  return {};
}

std::size_t LaunchRun::CountRunning() const {
  return static_cast<std::size_t>(std::count_if(children_.begin(), children_.end(),
                                                [](const RunningChild& c) { return c.running(); }));
}

int LaunchRun::PollTimeoutMs() const {
  if (!kill_at_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - options_.clock->Now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

Status LaunchRun::WaitForAll() {
  while (CountRunning() > 0) PACELINE_TRY(WaitOnce());
  return {};
}

Status LaunchRun::WaitOnce() {
  std::vector<pollfd> polls;
  polls.reserve(3 * children_.size() + 1);
  for (const RunningChild& child : children_) child.AddPolls(polls);
  // Last: a signal that a child sent before it ended is then seen no later than its end.
  polls.push_back({signals_.fd(), POLLIN, 0});
  const int ready = ::poll(polls.data(), polls.size(), PollTimeoutMs());
  if (ready < 0 && errno != EINTR) return Status::Error(Code::kInternal, "waiting for children");
  while (const int signal = signals_.Next()) OnSignal(signal);
  for (RunningChild& child : children_) child.Forward();
  PACELINE_TRY(ReapEnded());
  if (kill_at_ && options_.clock->Now() >= *kill_at_) {
    kill_at_.reset();
    KillAll(fmt::format("did not stop within {} s", ToSeconds(options_.grace)));
  }
  return {};
}

void LaunchRun::OnSignal(int signal) {
  if (stop_signal_ != 0) {
    if (signal == SIGINT) KillAll("killed by a second Ctrl-C");
    return;
  }
  stop_signal_ = signal;
  Say(fmt::format("{}: stopping {} workers; Ctrl-C again kills them", SignalName(signal),
                  CountRunning()));
  for (RunningChild& child : children_) child.Stop(signal);
}

void LaunchRun::KillAll(std::string_view why) {
  for (RunningChild& child : children_) {
    if (!child.running() || child.killed()) continue;
    Say(fmt::format("rank {} {}", child.spec().rank.value(), why));
    child.Kill();
  }
}

Status LaunchRun::ReapEnded() {
  for (RunningChild& child : children_) {
    if (!child.Ended()) continue;
    const auto state = child.Reap();
    if (!state.ok()) return state.status().Wrap("waiting for a child");
    if (!state->Success()) OnFailure(child, *state);
  }
  return {};
}

void LaunchRun::OnFailure(const RunningChild& child, const ExitState& state) {
  const auto oom_kills = OomKills(options_.cgroup_root);
  failures_.push_back({.rank = child.spec().rank,
                       .local_rank = child.spec().local_rank,
                       .host = child.spec().host.empty() ? ThisHost() : child.spec().host,
                       .pid = child.pid(),
                       .unix_seconds = options_.clock->UnixSeconds(),
                       .state = state,
                       .error_line = child.error_line(),
                       .out_of_memory = state.signal == SIGKILL && !child.killed() && oom_kills &&
                                        oom_kills_before_ && *oom_kills > *oom_kills_before_,
                       .asked_to_stop = child.asked_to_stop(),
                       .killed = child.killed()});
  if (failing_ || Classify(failures_.back()) == FailureKind::kStopped) return;
  failing_ = true;
  kill_at_ = options_.clock->Now() + options_.grace;
  if (const std::size_t others = CountRunning(); others > 0) {
    Say(fmt::format("rank {} {}; stopping {} other{}", child.spec().rank.value(),
                    DescribeEnd(state), others, others == 1 ? "" : "s"));
  }
  for (RunningChild& other : children_) other.Stop(SIGTERM);
}

int LaunchRun::Finish() const {
  if (failures_.empty()) return 0;
  const RankFailure& root = failures_[FindRootCause(failures_)];
  if (Classify(root) == FailureKind::kStopped) {  // only the user's signal ended them
    Say(fmt::format("stopped by {}", SignalName(stop_signal_)));
    return 128 + stop_signal_;
  }
  const std::string block = RenderFailures(options_.program, failures_);
  [[maybe_unused]] const auto n = ::write(options_.err_fd, block.data(), block.size());
  return ShellExitCode(root.state);
}

}  // namespace

Result<int> RunLauncher(const LauncherOptions& options, std::vector<ChildSpec> children) {
  LaunchRun launch(options);
  PACELINE_TRY(launch.Start(std::move(children)));
  PACELINE_TRY(launch.WaitForAll());
  return launch.Finish();
}

}  // namespace paceline::job
