#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::algo {

enum class LearningRateKind {
  kConstant,
  kStep,         // times gamma every `decay_every` steps, or at each of `decay_at`
  kCosine,       // half a cosine from base at the end of warm-up to floor at `total_steps`
  kInverseSqrt,  // base * min(s^-0.5, s * warmup^-1.5), s = step + 1 ("Attention is all you need",
                 // 5.3); set base = d_model^-0.5 for the paper's schedule
  kLinear,       // a straight line from base at the end of warm-up to floor at `total_steps`
  kPoly,         // as kLinear, with the rest of the way to the power of `power`
  kOneCycle,     // half a cosine up to base, half a cosine down; as PyTorch's OneCycleLR
};

// Immutable value. `warmup_steps` > 0 raises the rate linearly to its full value at step
// warmup_steps - 1; 0 means none. Inverse square root has its own warm-up, as above; one cycle
// rises from base / 25 during the warm-up, 3 tenths of all steps unless given.
struct LearningRateSchedule {
  LearningRateKind kind = LearningRateKind::kConstant;
  double base = 1e-3;
  std::uint64_t warmup_steps = 0;
  std::uint64_t decay_every = 0;        // kStep; 0: never
  std::vector<std::uint64_t> decay_at;  // kStep: instead, increasing steps; empty: not
  double gamma = 0.1;                   // kStep
  std::uint64_t total_steps = 0;        // where floor is reached; the rate stays there from here on
  double floor = 0;                     // of schedules with an end; kOneCycle: 0 is base / 250,000
  double power = 2;                     // kPoly
};

// A pure function of the step, so that a restarted or late worker needs no schedule state.
double LearningRateAt(const LearningRateSchedule& schedule, std::uint64_t step);

// "30,60,80": whole numbers of epochs, each larger than the one before, the first at least 1.
// kInvalidArgument says what is wrong with the text.
Result<std::vector<std::uint64_t>> ParseEpochs(std::string_view text);
// The steps that begin with these epochs: of each, the first whose samples all lie behind it.
// `dataset_size` and `global_batch` are samples, at least 1. Epochs beyond any run are left out.
std::vector<std::uint64_t> StepsOfEpochs(std::span<const std::uint64_t> epochs,
                                         std::uint64_t dataset_size, std::uint64_t global_batch);

// constant, step, cosine, inverse-sqrt, linear, poly, one-cycle.
Result<LearningRateKind> ParseLearningRateKind(std::string_view name);
const char* LearningRateKindName(LearningRateKind kind);
// Its shape depends on total_steps.
bool HasEnd(LearningRateKind kind);

}  // namespace paceline::algo
