#include "fused/run_log.h"

#include <fmt/format.h>

#include "base/log.h"

namespace paceline::fused {

Result<std::unique_ptr<RunLog>> RunLog::Open(const job::TrainConfig& config,
                                             const RunEnvironment& environment, Lock lock) {
  std::unique_ptr<RunLog> log(new RunLog(config.run, environment.clock, environment.progress));
  PACELINE_TRY(log->OpenDirectory(config, environment, lock));
  return log;
}

std::unique_ptr<RunLog> RunLog::Silent(const job::TrainConfig& config,
                                       const RunEnvironment& environment) {
  return std::unique_ptr<RunLog>(new RunLog(config.run, environment.clock, environment.progress));
}

Status RunLog::Keep(const job::TrainConfig& config, const RunEnvironment& environment) {
  if (keeps_records()) return {};
  PACELINE_TRY(OpenDirectory(config, environment, Lock::kLauncher));
  return KeepConfig(environment);
}

Status RunLog::KeepConfig(const RunEnvironment& environment) {
  return job::WriteTextFile(directory_.ConfigFile(), environment.config_text);
}

Status RunLog::OpenDirectory(const job::TrainConfig& config, const RunEnvironment& environment,
                             Lock lock) {
  const bool used = directory_.Used();
  PACELINE_TRY(directory_.Create());
  if (lock == Lock::kTake) {
    PACELINE_ASSIGN(lock_, disk::RunLock::Acquire(directory_.path(), environment.clock));
    if (used && !config.resume) {
      return Status::Error(Code::kInvalidArgument,
                           fmt::format("{} holds a run already; continue it with --resume, or "
                                       "choose another --run",
                                       directory_.path()));
    }
  }
  PACELINE_TRY(directory_.ReadOrMakeId().status());
  if (!config.resume) PACELINE_TRY(KeepConfig(environment));
  PACELINE_ASSIGN(events_, job::EventLog::Open(directory_.EventFile(), environment.clock));
  SetLogFile(directory_.LogFile());
  return {};
}

void RunLog::Record(const char* type, const JsonObject& fields) {
  if (!events_) return;
  const Status written = events_->Write(type, fields);
  if (!written.ok()) PACELINE_LOG(Warning, "{}; training goes on", written.message());
}

void RunLog::Warn(const std::string& text) {
  progress_.Finish();
  PACELINE_LOG(Warning, "{}", text);
  Record("warning", JsonObject().Add("message", text));
}

}  // namespace paceline::fused
