#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace paceline {

struct SubprocessOptions {
  std::vector<std::string> argv;                   // argv[0] is looked up in PATH
  std::map<std::string, std::string> environment;  // added to or replacing the parent's
  std::string working_directory;                   // empty: the parent's
  std::optional<int> cpu;                          // pin to this CPU
  std::vector<int> cpus;                           // or to these; empty: the parent's
  bool own_group = false;    // lead a process group, which the terminal's Ctrl-C does not reach
  bool pipe_stdin = false;   // else /dev/null
  bool pipe_stdout = true;   // else the parent's
  bool pipe_stderr = false;  // else the parent's
};

// How a process ended.
struct ExitState {
  int code = 0;    // exit code, or -1 when a signal ended it
  int signal = 0;  // 0, or the signal
  std::int64_t max_rss_bytes = 0;

  bool Success() const { return code == 0 && signal == 0; }
  // "exit code 13" or "signal 9 (Killed)".
  std::string Describe() const;
};

// One child process. It is killed with the thread that started it (PR_SET_PDEATHSIG) and by the
// destructor, with its whole group if it leads one, so nothing is left behind. Thread-compatible.
class Subprocess {
 public:
  static Result<Subprocess> Start(const SubprocessOptions& options);

  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;
  ~Subprocess();

  pid_t pid() const { return pid_; }

  Status WriteLine(const std::string& line);
  void CloseStdin() { stdin_.Reset(); }

  // The next line of stdout without its newline. kNotFound at the end, kTimeout at the deadline.
  Result<std::string> ReadLine(std::chrono::milliseconds timeout);

  // Everything that is still to come on stdout and stderr (where piped), until both are closed.
  struct Output {
    std::string out;
    std::string err;
  };
  Result<Output> ReadAll(std::chrono::milliseconds timeout);

  // Descriptors for whoever waits for several things at once: the first becomes readable when the
  // process has ended. -1 where there is none.
  int pidfd() const { return pidfd_.get(); }
  int stdout_fd() const { return stdout_.get(); }
  int stderr_fd() const { return stderr_.get(); }

  // To the process, or to its whole group if it leads one.
  void Signal(int signal) const;
  // What is left of the process's own group ends with it.
  Result<ExitState> Wait(std::chrono::milliseconds timeout);

 private:
  Subprocess(pid_t pid, bool own_group) : pid_(pid), own_group_(own_group) {}
  void KillAndReap();

  pid_t pid_ = -1;  // -1 once reaped
  bool own_group_ = false;
  UniqueFd pidfd_;
  UniqueFd stdin_;
  UniqueFd stdout_;
  UniqueFd stderr_;
  std::string pending_;  // read from stdout, not yet returned
};

// Runs to the end and collects both streams.
struct CommandResult {
  ExitState state;
  std::string out;
  std::string err;
};
Result<CommandResult> RunCommand(SubprocessOptions options, std::chrono::milliseconds timeout);

}  // namespace paceline
