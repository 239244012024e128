#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "job/trace.h"

namespace paceline::job {

// Where the time of a run goes. Always on: two clock reads per phase.
// kReduce: adding the shards of this worker; kWait: for the gradients of the others.
enum class Phase { kData, kForward, kBackward, kReduce, kWait, kApply, kEvaluate, kCheckpoint };
inline constexpr std::size_t kPhases = 8;

const char* PhaseName(Phase phase);

class PhaseTimes {
 public:
  void Add(Phase phase, std::chrono::nanoseconds time) {
    times_[static_cast<std::size_t>(phase)] += time;
  }
  std::chrono::nanoseconds Of(Phase phase) const { return times_[static_cast<std::size_t>(phase)]; }
  PhaseTimes Since(const PhaseTimes& earlier) const;

  // From now on every scope is also written into a trace; borrowed.
  void SetTrace(Trace* trace) { trace_ = trace; }
  // Called when a phase begins.
  void SetObserver(std::function<void(Phase)> observer) { observer_ = std::move(observer); }
  void Begin(Phase phase) const {
    if (observer_) observer_(phase);
  }
  void AddScope(Phase phase, Instant start, Instant end) {
    Add(phase, end - start);
    if (trace_ != nullptr) trace_->Span(PhaseName(phase), Trace::Track::kCompute, start, end);
  }

 private:
  std::array<std::chrono::nanoseconds, kPhases> times_{};
  Trace* trace_ = nullptr;
  std::function<void(Phase)> observer_;
};

// Adds the time of a scope to a phase.
class PhaseScope {
 public:
  PhaseScope(const Clock& clock, PhaseTimes& times, Phase phase)
      : clock_(clock), times_(times), phase_(phase), start_(clock.Now()) {
    times_.Begin(phase);
  }
  ~PhaseScope() { times_.AddScope(phase_, start_, clock_.Now()); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  const Clock& clock_;
  PhaseTimes& times_;
  Phase phase_;
  Instant start_;
};

}  // namespace paceline::job
