#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/status.h"
#include "disk/run_lock.h"
#include "job/event_log.h"
#include "job/progress.h"
#include "job/run_dir.h"
#include "job/train_config.h"

namespace paceline::fused {

// What a run needs from the process around it.
struct RunEnvironment {
  const Clock& clock;
  std::function<int()> stop_signal;  // 0, or the signal that asks to stop
  job::ProgressStyle progress = job::ProgressStyle::kOff;
  std::string config_text;  // kept as the run's config.toml
  std::string group;        // who works together, for people; empty: a trainer alone
};

// The records of a run that the trainer which leads keeps: directory, lock, events, progress line.
// The other trainers have one that writes nothing. Thread-compatible.
class RunLog {
 public:
  enum class Lock {
    kTake,      // this process alone writes to the directory
    kLauncher,  // whoever started the trainers and servers holds it
  };

  // Makes the run's directory its own. kInvalidArgument when another run was there and --resume was
  // not given, kAlreadyRunning when one is alive there.
  static Result<std::unique_ptr<RunLog>> Open(const job::TrainConfig& config,
                                              const RunEnvironment& environment, Lock lock);
  // Writes nothing until Keep().
  static std::unique_ptr<RunLog> Silent(const job::TrainConfig& config,
                                        const RunEnvironment& environment);
  // From now on it writes; whoever started the trainers holds the lock.
  Status Keep(const job::TrainConfig& config, const RunEnvironment& environment);

  // Of a run that goes on, only when it is known to be the same run: the configuration of another
  // one would be what the next attempt begins with.
  Status KeepConfig(const RunEnvironment& environment);

  bool keeps_records() const { return events_.has_value(); }
  const job::RunDirectory& directory() const { return directory_; }

  void Record(const char* type, const JsonObject& fields);
  void Warn(const std::string& text);
  void Note(const std::string& text) {
    if (keeps_records()) progress_.Note(text);
  }
  job::Progress& progress() { return progress_; }

 private:
  RunLog(const std::string& run, const Clock& clock, job::ProgressStyle style)
      : directory_(run), progress_(clock, style) {}
  Status OpenDirectory(const job::TrainConfig& config, const RunEnvironment& environment,
                       Lock lock);

  job::RunDirectory directory_;
  job::Progress progress_;
  std::optional<disk::RunLock> lock_;
  std::optional<job::EventLog> events_;
};

}  // namespace paceline::fused
