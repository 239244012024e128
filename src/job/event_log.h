#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/status.h"

namespace paceline::job {

// Appends JSON lines to a run's events.jsonl. Each line carries `type`, `time` (seconds since the
// log was opened, monotonic) and what the caller adds; each is flushed, so a killed process loses
// at most the line it was writing. Thread-compatible.
class EventLog {
 public:
  static Result<EventLog> Open(const std::string& path, const Clock& clock);

  // A full disk must not end the training: the first failure is returned once, later ones are
  // swallowed.
  Status Write(std::string_view type, const JsonObject& fields);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  EventLog(std::FILE* file, std::string path, const Clock& clock)
      : file_(file), path_(std::move(path)), clock_(&clock), start_(clock.Now()) {}

  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
  const Clock* clock_;
  Instant start_;
  bool failed_ = false;
};

}  // namespace paceline::job
