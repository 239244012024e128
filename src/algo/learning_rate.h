#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace paceline::algo {

enum class LearningRateKind {
  kConstant,
  kStep,         // times gamma every `decay_every` steps
  kCosine,       // half a cosine from base at the end of warm-up to floor at `total_steps`
  kInverseSqrt,  // base * min(s^-0.5, s * warmup^-1.5), s = step + 1 ("Attention is all you need",
                 // 5.3); set base = d_model^-0.5 for the paper's schedule
};

// Immutable value. `warmup_steps` > 0 raises the rate linearly to its full value at step
// warmup_steps - 1; 0 means none. Inverse square root has its own warm-up, as above.
struct LearningRateSchedule {
  LearningRateKind kind = LearningRateKind::kConstant;
  double base = 1e-3;
  std::uint64_t warmup_steps = 0;
  std::uint64_t decay_every = 0;  // kStep; 0: never
  double gamma = 0.1;             // kStep
  std::uint64_t total_steps = 0;  // kCosine; the rate stays at floor from here on
  double floor = 0;               // kCosine
};

// A pure function of the step, so that a restarted or late worker needs no schedule state.
double LearningRateAt(const LearningRateSchedule& schedule, std::uint64_t step);

// constant, step, cosine, inverse-sqrt.
Result<LearningRateKind> ParseLearningRateKind(std::string_view name);
const char* LearningRateKindName(LearningRateKind kind);

}  // namespace paceline::algo
