#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace paceline::job {

// The last things that a worker did, kept in memory at next to no cost and written to a file when
// something goes wrong. Thread-safe.
class FlightRecorder {
 public:
  explicit FlightRecorder(const Clock& clock, std::size_t capacity = 512);

  // `what` is a text that lives for ever, e.g. a phase's name.
  void Add(const char* what, std::uint64_t step, std::uint64_t detail = 0);

  // JSON lines, the oldest first: seconds before now, what, step, detail. Appends, behind a line
  // with the reason.
  Status Dump(const std::string& path, const std::string& why) const;

 private:
  struct Entry {
    Instant at{};
    const char* what = "";
    std::uint64_t step = 0;
    std::uint64_t detail = 0;
  };

  const Clock& clock_;
  mutable Mutex mutex_;
  std::vector<Entry> ring_ PACELINE_GUARDED_BY(mutex_);
  std::uint64_t count_ PACELINE_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::job
