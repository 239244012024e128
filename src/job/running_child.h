#pragma once

#include <poll.h>

#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "job/line_splitter.h"

namespace paceline::job {

// One process that a launcher is to run.
struct ChildSpec {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // added to or replacing the launcher's
  std::vector<int> cpus;                           // empty: not pinned
  std::string directory;                           // where it runs; empty: the launcher's
  std::string label;                               // "w1" or "w1@host"; empty: no prefix
  Rank rank;
  std::uint64_t local_rank = 0;
  std::string host;              // for the report; empty: this machine
  std::string stdin_line;        // written to its stdin (the secret for ssh); empty: nothing
  bool plain_stdout = false;     // its stdout is ours, as rank 0's
  bool stop_with_stdin = false;  // it ends when its stdin does (ssh) instead of by a signal
};

// Where the output of a child goes.
struct ChildStreams {
  int out_fd = 1;               // rank 0's stdout, as it is
  int err_fd = 2;               // everything else, with the label in front of each line
  bool inherit_stderr = false;  // stderr is the launcher's own, unseen by it
};

// A started child whose output is forwarded in whole lines. Nothing here waits: the launcher does,
// on all children at once. Thread-compatible.
class RunningChild {
 public:
  static Result<RunningChild> Start(ChildSpec spec, const ChildStreams& streams);

  const ChildSpec& spec() const { return spec_; }
  pid_t pid() const { return pid_; }
  bool running() const { return running_; }
  bool asked_to_stop() const { return asked_to_stop_; }
  bool killed() const { return killed_; }
  // What it said last on stderr.
  std::string error_line() const { return last_error_.Text(); }

  // Adds what to wait for: output, and the end of the process.
  void AddPolls(std::vector<pollfd>& polls) const;
  // Forwards the output that there is.
  void Forward();
  // True when the process has ended and waits for Reap().
  bool Ended() const;
  // Forwards the rest of the output and says how it ended; ends what is left of its group.
  Result<ExitState> Reap();

  // Asks it to stop, once.
  void Stop(int signal);
  void Kill();
  // Any signal, as often as wanted.
  void Send(int signal) { process_.Signal(signal); }

 private:
  struct Stream {
    int from = -1;  // -1 once closed
    int to = -1;
    std::string label;
    bool watch_errors = false;
    LineSplitter splitter;
  };
  RunningChild(ChildSpec spec, Subprocess process)
      : spec_(std::move(spec)), process_(std::move(process)), pid_(process_.pid()) {}

  void AddStream(int from, int to, bool with_label, bool watch_errors);
  void ForwardStream(Stream& stream, std::size_t limit_bytes);
  void WriteLines(Stream& stream, const std::vector<std::string>& lines);

  ChildSpec spec_;
  Subprocess process_;
  pid_t pid_;
  std::vector<Stream> streams_;
  LastError last_error_;
  bool running_ = true;
  bool asked_to_stop_ = false;
  bool killed_ = false;
};

}  // namespace paceline::job
