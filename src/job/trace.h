#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"

namespace paceline::job {

// What one rank did and when, kept in memory until the end of the run. Thread-safe. When it is full
// it keeps what it has and counts what it drops.
class Trace {
 public:
  enum class Track : std::uint8_t {
    kCompute,  // spans nest: one thing at a time
    kReduce,   // spans overlap: each is drawn on its own
  };
  struct Event {
    std::string name;
    Track track = Track::kCompute;
    Instant start{}, end{};
  };

  explicit Trace(std::size_t max_events = 200'000) : max_events_(max_events) {}

  void Span(std::string name, Track track, Instant start, Instant end);
  std::vector<Event> Events() const;
  std::uint64_t dropped() const;

 private:
  const std::size_t max_events_;
  mutable Mutex mutex_;
  std::vector<Event> events_ PACELINE_GUARDED_BY(mutex_);
  std::uint64_t dropped_ PACELINE_GUARDED_BY(mutex_) = 0;
};

// The events of one rank for the wire. `zero` is the moment that all ranks call time 0.
std::string EncodeTrace(const Trace& trace, Instant zero);

// One rank's contribution to a trace file.
struct RankTrace {
  Rank rank;
  std::string host;
  std::string encoded;  // from EncodeTrace
};

// Writes all ranks into one file in Chrome's format, which Perfetto and chrome://tracing show: a
// process for each rank, computation and reductions on tracks of their own. kProtocol when a rank's
// bytes are not a trace, kDisk when the file cannot be written.
Status WriteChromeTrace(const std::string& path, std::span<const RankTrace> ranks);

}  // namespace paceline::job
