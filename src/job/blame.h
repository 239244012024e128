#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "collective/engine.h"
#include "job/straggler.h"

namespace paceline::job {

// The connection of one worker on which data was on its way longest, of late.
struct BusyLink {
  Rank to;
  double share = 0;  // of the time; 0: there is none, or nothing is known
  double bytes_per_second = 0;
};

// Finds it from counters that only grow. Thread-compatible.
class LinkWatch {
 public:
  // What happened since the last call, which was so long ago; nothing at the first call, or when
  // the counters began anew.
  BusyLink Sample(std::span<const collective::Engine::Link> links, double seconds);

 private:
  std::map<Rank, collective::Engine::Link> before_;
};

// Who and what the group has waited for lately: the worker that was busy longest, and the
// connection that was. Thread-compatible.
class BlameReport {
 public:
  explicit BlameReport(std::chrono::nanoseconds every) : every_(every) {}

  // The group has changed: ranks mean others now.
  void Restart(Instant now);
  // A step of so many seconds; by rank.
  void Add(std::span<const double> busy_seconds, std::span<const BusyLink> links, double seconds);
  bool Due(Instant now) const { return every_.count() > 0 && now - since_ >= every_; }

  struct Blame {
    std::string text;      // "in 60 s rank 2 was last in 83 % of 120 steps; ...; the link from ..."
    bool notable = false;  // worth a person's attention
  };
  // Of the time since the last one; nothing for a worker alone.
  std::optional<Blame> Take(Instant now);

 private:
  const std::chrono::nanoseconds every_;
  Instant since_{};
  StragglerReport stragglers_;
  std::vector<BusyLink> links_;
  double step_seconds_ = 0;
  double idle_seconds_ = 0;  // of the steps, after the last worker had its gradients
};

}  // namespace paceline::job
