#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"

namespace paceline::bench {

struct StepServerOptions {
  std::string name;  // for messages until it names itself
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // added to ours
  std::vector<int> cpus;                           // pin to these; empty: not pinned
  std::filesystem::path stderr_path;               // its stderr goes here; must be writable
  std::chrono::milliseconds ready_timeout{180'000};
  std::chrono::milliseconds run_timeout{900'000};  // one `run`
  std::chrono::milliseconds quit_timeout{30'000};
};

// What a step server says about itself when it is ready.
struct ServerInfo {
  std::string system;
  std::string version;
  std::string model;
  std::int64_t params = 0;
  std::int64_t tensors = 0;
  std::int64_t batch = 0;
  std::int64_t threads = 0;

  friend bool operator==(const ServerInfo&, const ServerInfo&) = default;
};

// What a step server is to train; 0: not checked.
struct StepTask {
  std::string model;
  std::int64_t batch = 0;
  std::int64_t threads = 0;
  std::int64_t params = 0;
  std::int64_t tensors = 0;
};

// --model, --batch and --threads, and the variables by which libraries count their threads.
void AddTask(const StepTask& task, StepServerOptions* server);

// kMismatch names what differs. A fast system that trains something else would be no comparison.
Status CheckTask(const StepTask& task, const ServerInfo& info);

struct StepTiming {
  double seconds = 0;
  std::int64_t samples = 0;
  std::optional<double> loss;        // none when it is not finite
  std::vector<double> step_seconds;  // of each step; empty: a system that does not tell
};

// One training process that performs steps on command and waits, blocked on its stdin, in between.
// The line protocol is documented in bench/peers/README.md. Thread-compatible. The process is
// killed with this object and, through the stop token, at any moment of a call. Every error names
// the system, how it ended and its last words on stderr.
class StepServer {
 public:
  // kUnavailable: the system is not installed here (exit code 3, or no such program).
  static Result<StepServer> Start(const StepServerOptions& options, std::stop_token stop);

  // Run and the others below in two halves, for processes that must work at the same time: begin
  // all of them, then finish all of them.
  static Result<StepServer> Launch(const StepServerOptions& options);
  Status FinishLaunch(std::stop_token stop);

  const ServerInfo& info() const { return info_; }

  // kAborted when `stop` is requested; the process is dead then.
  Result<StepTiming> Run(int steps, std::stop_token stop);
  void BeginRun(int steps);
  Result<StepTiming> FinishRun(int steps, std::stop_token stop);

  // Ends it and returns the most memory it used.
  Result<std::int64_t> Quit(std::stop_token stop);
  void BeginQuit();
  Result<std::int64_t> FinishQuit(std::stop_token stop);

 private:
  StepServer(StepServerOptions options, Subprocess process)
      : options_(std::move(options)), process_(std::move(process)) {}
  Result<std::string> Read(const std::string& doing, std::chrono::milliseconds timeout,
                           std::stop_token stop);
  Status Explain(const Status& cause, const std::string& doing);
  std::string LastWords() const;

  StepServerOptions options_;
  Subprocess process_;
  ServerInfo info_;
};

}  // namespace paceline::bench
