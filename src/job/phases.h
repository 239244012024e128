#pragma once

#include <array>
#include <cstddef>

#include "base/clock.h"

namespace paceline::job {

// Where the time of a run goes. Always on: two clock reads per phase.
enum class Phase { kData, kForward, kBackward, kReduce, kApply, kEvaluate, kCheckpoint };
inline constexpr std::size_t kPhases = 7;

const char* PhaseName(Phase phase);

class PhaseTimes {
 public:
  void Add(Phase phase, std::chrono::nanoseconds time) {
    times_[static_cast<std::size_t>(phase)] += time;
  }
  std::chrono::nanoseconds Of(Phase phase) const { return times_[static_cast<std::size_t>(phase)]; }
  PhaseTimes Since(const PhaseTimes& earlier) const;

 private:
  std::array<std::chrono::nanoseconds, kPhases> times_{};
};

// Adds the time of a scope to a phase.
class PhaseScope {
 public:
  PhaseScope(const Clock& clock, PhaseTimes& times, Phase phase)
      : clock_(clock), times_(times), phase_(phase), start_(clock.Now()) {}
  ~PhaseScope() { times_.Add(phase_, clock_.Now() - start_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  const Clock& clock_;
  PhaseTimes& times_;
  Phase phase_;
  Instant start_;
};

}  // namespace paceline::job
