#include "job/running_child.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace paceline::job {

namespace {

// One turn of forwarding, so that a child that prints without end does not keep the others waiting.
constexpr std::size_t kTurnBytes = 64 << 10;
// What may be in a pipe when its writer ends: its largest size (/proc/sys/fs/pipe-max-size).
constexpr std::size_t kMaxPipeBytes = 1 << 20;

// Losing our own output is no reason to end a training.
void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

Result<RunningChild> RunningChild::Start(ChildSpec spec, const ChildStreams& streams) {
  SubprocessOptions options{.argv = spec.argv,
                            .environment = spec.environment,
                            .working_directory = spec.directory,
                            .cpus = spec.cpus,
                            .own_group = true,
                            .pipe_stdin = spec.stop_with_stdin || !spec.stdin_line.empty(),
                            .pipe_stdout = true,
                            .pipe_stderr = !streams.inherit_stderr};
  auto process = Subprocess::Start(options);
  if (!process.ok()) return process.status().Wrap("starting " + spec.argv.front());
  RunningChild child(std::move(spec), std::move(*process));
  if (!child.spec_.stdin_line.empty()) {
    // Lost when the child has ended already; its exit code tells more.
    [[maybe_unused]] const Status written = child.process_.WriteLine(child.spec_.stdin_line);
    child.spec_.stdin_line.clear();
    if (!child.spec_.stop_with_stdin) child.process_.CloseStdin();
  }
  const bool first = child.spec_.rank == Rank(0) || child.spec_.plain_stdout;
  child.AddStream(child.process_.stdout_fd(), first ? streams.out_fd : streams.err_fd,
                  /*with_label=*/!first, /*watch_errors=*/false);
  child.AddStream(child.process_.stderr_fd(), streams.err_fd, /*with_label=*/true,
                  /*watch_errors=*/true);
  return child;
}

void RunningChild::AddStream(int from, int to, bool with_label, bool watch_errors) {
  if (from < 0) return;
  ::fcntl(from, F_SETFL, ::fcntl(from, F_GETFL) | O_NONBLOCK);
  streams_.push_back({from, to, with_label ? spec_.label : std::string(), watch_errors, {}});
}

void RunningChild::AddPolls(std::vector<pollfd>& polls) const {
  if (!running_) return;
  polls.push_back({process_.pidfd(), POLLIN, 0});
  for (const Stream& stream : streams_) {
    if (stream.from >= 0) polls.push_back({stream.from, POLLIN, 0});
  }
}

void RunningChild::Forward() {
  for (Stream& stream : streams_) ForwardStream(stream, kTurnBytes);
}

void RunningChild::ForwardStream(Stream& stream, std::size_t limit_bytes) {
  char buffer[1 << 14];
  for (std::size_t total = 0; stream.from >= 0 && total < limit_bytes;) {
    const ssize_t n = ::read(stream.from, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {  // the descriptor itself belongs to the process
      stream.from = -1;
      return;
    }
    total += static_cast<std::size_t>(n);
    WriteLines(stream, stream.splitter.Feed({buffer, static_cast<std::size_t>(n)}));
  }
}

void RunningChild::WriteLines(Stream& stream, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (stream.watch_errors) last_error_.Observe(line);
    text += PrefixLine(stream.label, line);
  }
  WriteAll(stream.to, text);
}

bool RunningChild::Ended() const {
  pollfd wait{process_.pidfd(), POLLIN, 0};
  return running_ && ::poll(&wait, 1, 0) > 0;
}

Result<ExitState> RunningChild::Reap() {
  running_ = false;
  auto state = process_.Wait(std::chrono::milliseconds(0));
  for (Stream& stream : streams_) {
    ForwardStream(stream, kMaxPipeBytes);
    stream.from = -1;  // whoever else holds the pipe is not ours
    if (const auto line = stream.splitter.Finish()) WriteLines(stream, {*line});
  }
  return state;
}

void RunningChild::Stop(int signal) {
  if (!running_ || asked_to_stop_) return;
  asked_to_stop_ = true;
  if (spec_.stop_with_stdin) {
    process_.CloseStdin();
  } else {
    process_.Signal(signal);
  }
}

void RunningChild::Kill() {
  if (!running_) return;
  killed_ = true;
  process_.Signal(SIGKILL);
}

}  // namespace paceline::job
