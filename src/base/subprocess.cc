#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/clock.h"

namespace paceline {

namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Status SystemError(const char* what) {
  return Status::Error(Code::kInternal, fmt::format("{}: {}", what, std::strerror(errno)));
}

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return SystemError("pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

int RemainingMs(Instant deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SystemClock().Now());
  return left.count() < 0 ? 0 : static_cast<int>(left.count());
}

// What the child needs, prepared before fork(): after it only async-signal-safe calls are allowed.
struct ChildPlan {
  std::vector<char*> argv;
  std::vector<std::string> environment_text;
  std::vector<char*> environment;
  const char* working_directory = nullptr;
  cpu_set_t cpus{};
  bool pin = false;
  bool own_group = false;
  int in = -1, out = -1, err = -1;
};

ChildPlan MakePlan(const SubprocessOptions& options) {
  ChildPlan plan;
  for (const std::string& argument : options.argv) {
    plan.argv.push_back(const_cast<char*>(argument.c_str()));
  }
  plan.argv.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    const std::string name(*entry, equals == nullptr ? std::strlen(*entry)
                                                     : static_cast<std::size_t>(equals - *entry));
    if (!options.environment.contains(name)) plan.environment_text.emplace_back(*entry);
  }
  for (const auto& [name, value] : options.environment) {
    plan.environment_text.push_back(name + "=" + value);
  }
  for (std::string& entry : plan.environment_text) plan.environment.push_back(entry.data());
  plan.environment.push_back(nullptr);
  if (!options.working_directory.empty()) {
    plan.working_directory = options.working_directory.c_str();
  }
  CPU_ZERO(&plan.cpus);
  if (options.cpu) CPU_SET(static_cast<std::size_t>(*options.cpu), &plan.cpus);
  for (const int cpu : options.cpus) CPU_SET(static_cast<std::size_t>(cpu), &plan.cpus);
  plan.pin = CPU_COUNT(&plan.cpus) > 0;
  plan.own_group = options.own_group;
  return plan;
}

[[noreturn]] void RunChild(const ChildPlan& plan, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before prctl
  if (plan.own_group) {
    ::setpgid(0, 0);
    ::signal(SIGINT, SIG_DFL);  // a shell's background job ignores it; here we send it on purpose
  }
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // what we block is our own affair
  if (plan.pin) ::sched_setaffinity(0, sizeof(plan.cpus), &plan.cpus);
  if (plan.in >= 0) ::dup2(plan.in, STDIN_FILENO);
  if (plan.out >= 0) ::dup2(plan.out, STDOUT_FILENO);
  if (plan.err >= 0) ::dup2(plan.err, STDERR_FILENO);
  if (plan.working_directory != nullptr && ::chdir(plan.working_directory) != 0) ::_exit(126);
  ::execvpe(plan.argv[0], plan.argv.data(), plan.environment.data());
  constexpr char kMessage[] = "paceline: cannot execute the program: ";
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  ignored = ::write(STDERR_FILENO, plan.argv[0], std::strlen(plan.argv[0]));
  ignored = ::write(STDERR_FILENO, "\n", 1);
  ::_exit(127);
}

}  // namespace

std::string ExitState::Describe() const {
  if (signal != 0) return fmt::format("signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit code {}", code);
}

Result<Subprocess> Subprocess::Start(const SubprocessOptions& options) {
  PACELINE_CHECK(!options.argv.empty(), "a process needs a program");
  ChildPlan plan = MakePlan(options);
  Pipe in, out, err;
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  plan.in = null.get();
  if (options.pipe_stdin) {
    PACELINE_ASSIGN(in, MakePipe());
    plan.in = in.read.get();
  }
  if (options.pipe_stdout) {
    PACELINE_ASSIGN(out, MakePipe());
    plan.out = out.write.get();
  }
  if (options.pipe_stderr) {
    PACELINE_ASSIGN(err, MakePipe());
    plan.err = err.write.get();
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return SystemError("fork");
  if (pid == 0) RunChild(plan, parent);
  if (plan.own_group) ::setpgid(pid, pid);  // here as well: whoever comes first
  Subprocess child(pid, plan.own_group);
  child.pidfd_.Reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  child.stdin_ = std::move(in.write);
  child.stdout_ = std::move(out.read);
  child.stderr_ = std::move(err.read);
  if (!child.pidfd_.valid()) return SystemError("pidfd_open");
  return child;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      own_group_(other.own_group_),
      pidfd_(std::move(other.pidfd_)),
      stdin_(std::move(other.stdin_)),
      stdout_(std::move(other.stdout_)),
      stderr_(std::move(other.stderr_)),
      pending_(std::move(other.pending_)) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  if (this != &other) {
    KillAndReap();
    pid_ = std::exchange(other.pid_, -1);
    own_group_ = other.own_group_;
    pidfd_ = std::move(other.pidfd_);
    stdin_ = std::move(other.stdin_);
    stdout_ = std::move(other.stdout_);
    stderr_ = std::move(other.stderr_);
    pending_ = std::move(other.pending_);
  }
  return *this;
}

Subprocess::~Subprocess() { KillAndReap(); }

void Subprocess::KillAndReap() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

Status Subprocess::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t written = 0;
  // A dead child must be an error here, not a SIGPIPE that ends us.
  sigset_t pipe_signal, before;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  Status status;
  while (written < text.size()) {
    const ssize_t n = ::write(stdin_.get(), text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status = Status::Error(Code::kPeerLost, fmt::format("process {} reads no more", pid_));
      const timespec now{};
      ::sigtimedwait(&pipe_signal, nullptr, &now);
      break;
    }
    written += static_cast<std::size_t>(n);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

Result<std::string> Subprocess::ReadLine(std::chrono::milliseconds timeout) {
  const Instant deadline = SystemClock().Now() + timeout;
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    pollfd wait{stdout_.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, RemainingMs(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return Status::Error(Code::kTimeout, fmt::format("process {} printed no line in time", pid_));
    }
    char buffer[4096];
    const ssize_t n = ::read(stdout_.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Status::Error(Code::kNotFound, "end of output");
    pending_.append(buffer, static_cast<std::size_t>(n));
  }
}

Result<Subprocess::Output> Subprocess::ReadAll(std::chrono::milliseconds timeout) {
  const Instant deadline = SystemClock().Now() + timeout;
  Output output;
  output.out = std::move(pending_);
  pending_.clear();
  while (stdout_.valid() || stderr_.valid()) {
    pollfd waits[2] = {{stdout_.get(), POLLIN, 0}, {stderr_.get(), POLLIN, 0}};
    const int ready = ::poll(waits, 2, RemainingMs(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return Status::Error(Code::kTimeout, fmt::format("process {} did not end in time", pid_));
    }
    for (int i = 0; i < 2; ++i) {
      if (waits[i].revents == 0) continue;
      UniqueFd& fd = i == 0 ? stdout_ : stderr_;
      char buffer[1 << 14];
      const ssize_t n = ::read(fd.get(), buffer, sizeof(buffer));
      if (n > 0) {
        (i == 0 ? output.out : output.err).append(buffer, static_cast<std::size_t>(n));
      } else if (n == 0 || errno != EINTR) {
        fd.Reset();
      }
    }
  }
  return output;
}

void Subprocess::Signal(int signal) const {
  if (pid_ > 0) ::kill(own_group_ ? -pid_ : pid_, signal);
}

Result<ExitState> Subprocess::Wait(std::chrono::milliseconds timeout) {
  const Instant deadline = SystemClock().Now() + timeout;
  pollfd wait{pidfd_.get(), POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&wait, 1, RemainingMs(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    return Status::Error(Code::kTimeout, fmt::format("process {} still runs", pid_));
  }
  if (own_group_) Signal(SIGKILL);  // before the number is free for somebody else's group
  int raw = 0;
  rusage usage{};
  if (::wait4(pid_, &raw, 0, &usage) != pid_) return SystemError("wait4");
  pid_ = -1;
  ExitState state;
  state.max_rss_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  if (WIFSIGNALED(raw)) {
    state.code = -1;
    state.signal = WTERMSIG(raw);
  } else {
    state.code = WEXITSTATUS(raw);
  }
  return state;
}

Result<CommandResult> RunCommand(SubprocessOptions options, std::chrono::milliseconds timeout) {
  options.pipe_stdout = true;
  options.pipe_stderr = true;
  PACELINE_ASSIGN(Subprocess child, Subprocess::Start(options));
  PACELINE_ASSIGN(Subprocess::Output output, child.ReadAll(timeout));
  PACELINE_ASSIGN(const ExitState state, child.Wait(timeout));
  return CommandResult{state, std::move(output.out), std::move(output.err)};
}

}  // namespace paceline
