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
  std::optional<int> cpu;                          // pin to this CPU
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
};

struct StepTiming {
  double seconds = 0;
  std::int64_t samples = 0;
  std::optional<double> loss;  // none when it is not finite
};

// One training process that performs steps on command and waits, blocked on its stdin, in between.
// The line protocol is documented in bench/peers/README.md. Thread-compatible. The process is
// killed with this object and, through the stop token, at any moment of a call. Every error names
// the system, how it ended and its last words on stderr.
class StepServer {
 public:
  // kUnavailable: the system is not installed here (exit code 3, or no such program).
  static Result<StepServer> Start(const StepServerOptions& options, std::stop_token stop);

  const ServerInfo& info() const { return info_; }

  // kAborted when `stop` is requested; the process is dead then.
  Result<StepTiming> Run(int steps, std::stop_token stop);

  // Ends it and returns the most memory it used.
  Result<std::int64_t> Quit(std::stop_token stop);

 private:
  StepServer(StepServerOptions options, Subprocess process)
      : options_(std::move(options)), process_(std::move(process)) {}
  Status ReadInfo(std::stop_token stop);
  Result<std::string> Ask(const std::string& command, std::chrono::milliseconds timeout,
                          std::stop_token stop);
  Status Explain(const Status& cause, const std::string& doing);
  std::string LastWords() const;

  StepServerOptions options_;
  Subprocess process_;
  ServerInfo info_;
};

}  // namespace paceline::bench
