#include "job/phases.h"

namespace paceline::job {

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kData: return "data";
    case Phase::kForward: return "forward";
    case Phase::kBackward: return "backward";
    case Phase::kReduce: return "reduce";
    case Phase::kWait: return "wait";
    case Phase::kApply: return "apply";
    case Phase::kEvaluate: return "evaluate";
    case Phase::kCheckpoint: return "checkpoint";
  }
  return "unknown";
}

PhaseTimes PhaseTimes::Since(const PhaseTimes& earlier) const {
  PhaseTimes difference;
  for (std::size_t i = 0; i < kPhases; ++i) {
    difference.times_[i] = times_[i] - earlier.times_[i];
  }
  return difference;
}

}  // namespace paceline::job
