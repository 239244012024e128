#include "algo/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace paceline::algo {

namespace {

constexpr LearningRateKind kKinds[] = {LearningRateKind::kConstant, LearningRateKind::kStep,
                                       LearningRateKind::kCosine, LearningRateKind::kInverseSqrt};

double InverseSqrt(const LearningRateSchedule& schedule, std::uint64_t step) {
  const double s = static_cast<double>(step) + 1;
  const double decay = 1 / std::sqrt(s);
  if (schedule.warmup_steps == 0) return schedule.base * decay;
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  return schedule.base * std::min(decay, s / (warmup * std::sqrt(warmup)));
}

double StepDecay(const LearningRateSchedule& schedule, std::uint64_t step) {
  if (schedule.decay_every == 0) return schedule.base;
  const std::uint64_t decays = step / schedule.decay_every;
  return schedule.base * std::pow(schedule.gamma, static_cast<double>(decays));
}

// step >= warmup_steps.
double Cosine(const LearningRateSchedule& schedule, std::uint64_t step) {
  if (step >= schedule.total_steps) return schedule.floor;
  const double progress = static_cast<double>(step - schedule.warmup_steps) /
                          static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  return schedule.floor +
         (schedule.base - schedule.floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace

double LearningRateAt(const LearningRateSchedule& schedule, std::uint64_t step) {
  if (schedule.kind == LearningRateKind::kInverseSqrt) return InverseSqrt(schedule, step);
  if (step < schedule.warmup_steps) {
    return schedule.base * (static_cast<double>(step) + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  switch (schedule.kind) {
    case LearningRateKind::kStep: return StepDecay(schedule, step);
    case LearningRateKind::kCosine: return Cosine(schedule, step);
    case LearningRateKind::kConstant:
    case LearningRateKind::kInverseSqrt: break;
  }
  return schedule.base;
}

Result<LearningRateKind> ParseLearningRateKind(std::string_view name) {
  for (LearningRateKind kind : kKinds) {
    if (name == LearningRateKindName(kind)) return kind;
  }
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("no learning-rate schedule '{}': constant, step, cosine or inverse-sqrt", name));
}

const char* LearningRateKindName(LearningRateKind kind) {
  switch (kind) {
    case LearningRateKind::kConstant: return "constant";
    case LearningRateKind::kStep: return "step";
    case LearningRateKind::kCosine: return "cosine";
    case LearningRateKind::kInverseSqrt: return "inverse-sqrt";
  }
  return "unknown";
}

}  // namespace paceline::algo
