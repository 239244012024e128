#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "bench/perf_case.h"
#include "bench/perf_channel.h"

namespace paceline::bench {

// A process to start: a rank, or mpirun with all of them.
struct PerfProcess {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // added to ours
  std::filesystem::path log;                       // its stdout and stderr
  std::vector<int> cpus;                           // empty: not pinned
};

struct PerfGroupOptions {
  std::string engine;
  int workers = 0;
  std::vector<PerfProcess> processes;
  std::filesystem::path control;  // socket to which the ranks connect; must not exist
  std::chrono::milliseconds ready_timeout{60'000};
  std::chrono::milliseconds run_timeout{600'000};
  std::chrono::milliseconds quit_timeout{20'000};
};

// All ranks of one engine. They are started once and wait, blocked, between commands. All processes
// have ended when this object has. A requested stop ends them at any moment. Thread-compatible.
class PerfGroup {
 public:
  // kUnavailable: the engine is not here (exit code 3, or no such program).
  static Result<PerfGroup> Start(const PerfGroupOptions& options, std::stop_token stop);
  PerfGroup(PerfGroup&&) = default;
  PerfGroup& operator=(PerfGroup&&) = delete;
  ~PerfGroup();

  const std::string& version() const { return version_; }

  // One turn: the samples in order of rank. kAborted when `stop` is requested.
  Result<std::vector<PerfSample>> Run(const PerfStep& step, std::stop_token stop);

  // Ends all ranks; the memory of the largest.
  Result<std::int64_t> Quit(std::stop_token stop);

 private:
  explicit PerfGroup(PerfGroupOptions options) : options_(std::move(options)) {}
  Status StartProcesses();
  Status AcceptRanks(PerfListener& listener, const std::stop_token& stop);
  Status Admit(PerfChannel channel);
  Result<std::vector<std::string>> AskAll(const std::string& command,
                                          std::chrono::milliseconds timeout,
                                          const std::stop_token& stop);
  Status CheckAlive();
  Status Explain(const std::string& doing, const Status& cause);
  std::string LastWords() const;
  void Interrupt();

  PerfGroupOptions options_;
  std::vector<Subprocess> processes_;
  std::vector<PerfChannel> channels_;  // in order of rank; invalid until admitted
  int admitted_ = 0;
  std::string version_;
};

}  // namespace paceline::bench
