#include "algo/learning_rate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

namespace paceline::algo {

namespace {

constexpr LearningRateKind kKinds[] = {LearningRateKind::kConstant, LearningRateKind::kStep,
                                       LearningRateKind::kCosine,   LearningRateKind::kInverseSqrt,
                                       LearningRateKind::kLinear,   LearningRateKind::kPoly,
                                       LearningRateKind::kOneCycle};

double InverseSqrt(const LearningRateSchedule& schedule, std::uint64_t step) {
  const double s = static_cast<double>(step) + 1;
  const double decay = 1 / std::sqrt(s);
  if (schedule.warmup_steps == 0) return schedule.base * decay;
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  return schedule.base * std::min(decay, s / (warmup * std::sqrt(warmup)));
}

double StepDecay(const LearningRateSchedule& schedule, std::uint64_t step) {
  const auto decayed = [&](auto times) {
    return schedule.base * std::pow(schedule.gamma, static_cast<double>(times));
  };
  if (!schedule.decay_at.empty()) {
    const auto& at = schedule.decay_at;
    return decayed(std::upper_bound(at.begin(), at.end(), step) - at.begin());
  }
  return schedule.decay_every == 0 ? schedule.base : decayed(step / schedule.decay_every);
}

double HalfCosine(double from, double to, double progress) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

// From base to floor after the warm-up, for schedules with an end. step >= warmup_steps.
double Decay(const LearningRateSchedule& schedule, std::uint64_t step) {
  if (step >= schedule.total_steps) return schedule.floor;
  const double progress = static_cast<double>(step - schedule.warmup_steps) /
                          static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  if (schedule.kind == LearningRateKind::kCosine) {
    return HalfCosine(schedule.base, schedule.floor, progress);
  }
  const double power = schedule.kind == LearningRateKind::kLinear ? 1 : schedule.power;
  return schedule.floor + (schedule.base - schedule.floor) * std::pow(1 - progress, power);
}

// The factors and the share of the rise are PyTorch's defaults, and so is that both ends are hit.
double OneCycle(const LearningRateSchedule& schedule, std::uint64_t step) {
  constexpr double kFirst = 25, kLast = 25e4, kRise = 0.3;
  const double floor = schedule.floor > 0 ? schedule.floor : schedule.base / kLast;
  const auto total = static_cast<double>(schedule.total_steps);
  const double rise =
      schedule.warmup_steps > 0 ? static_cast<double>(schedule.warmup_steps) : kRise * total;
  const double top = std::max(0.0, rise - 1), end = total - 1, at = static_cast<double>(step);
  if (at < top) return HalfCosine(schedule.base / kFirst, schedule.base, at / top);
  if (at >= end) return floor;
  return HalfCosine(schedule.base, floor, (at - top) / (end - top));
}

}  // namespace

double LearningRateAt(const LearningRateSchedule& schedule, std::uint64_t step) {
  if (schedule.kind == LearningRateKind::kInverseSqrt) return InverseSqrt(schedule, step);
  if (schedule.kind == LearningRateKind::kOneCycle) return OneCycle(schedule, step);
  if (step < schedule.warmup_steps) {
    return schedule.base * (static_cast<double>(step) + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  switch (schedule.kind) {
    case LearningRateKind::kStep: return StepDecay(schedule, step);
    case LearningRateKind::kCosine:
    case LearningRateKind::kLinear:
    case LearningRateKind::kPoly: return Decay(schedule, step);
    case LearningRateKind::kConstant:
    case LearningRateKind::kInverseSqrt:
    case LearningRateKind::kOneCycle: break;
  }
  return schedule.base;
}

Result<std::vector<std::uint64_t>> ParseEpochs(std::string_view text) {
  const auto wrong = [&](std::string_view part, const char* why) {
    return Status::Error(Code::kInvalidArgument, fmt::format("'{}': '{}' {}", text, part, why));
  };
  std::vector<std::uint64_t> epochs;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    std::uint64_t epoch = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), epoch);
    if (error != std::errc() || end != part.data() + part.size() || epoch == 0) {
      return wrong(part, "is not a whole number of epochs from 1 on");
    }
    if (!epochs.empty() && epoch <= epochs.back()) {
      return wrong(part, "is not larger than the one before");
    }
    epochs.push_back(epoch);
    if (comma == std::string_view::npos) return epochs;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<std::uint64_t> StepsOfEpochs(std::span<const std::uint64_t> epochs,
                                         std::uint64_t dataset_size, std::uint64_t global_batch) {
  std::vector<std::uint64_t> steps;
  for (const std::uint64_t epoch : epochs) {
    if (epoch > std::numeric_limits<std::uint64_t>::max() / dataset_size) break;
    const std::uint64_t samples = epoch * dataset_size;
    steps.push_back(samples / global_batch + (samples % global_batch == 0 ? 0 : 1));
  }
  return steps;
}

Result<LearningRateKind> ParseLearningRateKind(std::string_view name) {
  for (LearningRateKind kind : kKinds) {
    if (name == LearningRateKindName(kind)) return kind;
  }
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("no learning-rate schedule '{}': constant, step, cosine, inverse-sqrt, linear, "
                  "poly or one-cycle",
                  name));
}

const char* LearningRateKindName(LearningRateKind kind) {
  switch (kind) {
    case LearningRateKind::kConstant: return "constant";
    case LearningRateKind::kStep: return "step";
    case LearningRateKind::kCosine: return "cosine";
    case LearningRateKind::kInverseSqrt: return "inverse-sqrt";
    case LearningRateKind::kLinear: return "linear";
    case LearningRateKind::kPoly: return "poly";
    case LearningRateKind::kOneCycle: return "one-cycle";
  }
  return "unknown";
}

bool HasEnd(LearningRateKind kind) {
  switch (kind) {
    case LearningRateKind::kConstant:
    case LearningRateKind::kStep:
    case LearningRateKind::kInverseSqrt: return false;
    case LearningRateKind::kCosine:
    case LearningRateKind::kLinear:
    case LearningRateKind::kPoly:
    case LearningRateKind::kOneCycle: return true;
  }
  return false;
}

}  // namespace paceline::algo
