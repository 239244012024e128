#include "ps/dense_store.h"

#include <algorithm>
#include <cstring>

#include "kernel/optimizer.h"

namespace paceline::ps {

std::size_t DensePlanes(RowOptimizerKind kind) {
  switch (kind) {
    case RowOptimizerKind::kSgd: return 1;
    case RowOptimizerKind::kMomentum:
    case RowOptimizerKind::kAdagrad: return 2;
    case RowOptimizerKind::kAdam:
    case RowOptimizerKind::kFtrl:
    case RowOptimizerKind::kAdamW: return 3;
  }
  return 1;
}

DenseStore::DenseStore(const JobSpec& spec, std::span<const DensePiece> pieces)
    : trainers_(spec.trainers),
      compensation_(spec.delay_compensation),
      planes_count_(DensePlanes(spec.dense_optimizer.kind)) {
  ranges_.reserve(pieces.size());
  for (const DensePiece& piece : pieces) {
    const DenseTensor& tensor = spec.dense[piece.tensor];
    const auto count = static_cast<std::size_t>(piece.count);
    ranges_.push_back({.begin = floats_,
                       .count = count,
                       .kind = tensor.kind,
                       .optimizer = spec.OptimizerOf(tensor.kind),
                       .learning_rate_scale = tensor.learning_rate_scale});
    floats_ += count;
  }
  const MutexLock lock(mutex_);
  planes_.assign(planes_count_, std::vector<float>(floats_));
}

std::size_t DenseStore::MemoryBytes() const {
  const MutexLock lock(mutex_);
  return (planes_.size() + pulled_.size()) * floats_ * sizeof(float);
}

void DenseStore::Assign(std::span<const float> values) { WritePlane(0, 0, values); }

void DenseStore::Read(std::span<float> out, const std::function<void(std::size_t)>& copied) const {
  constexpr std::size_t kPieceFloats = std::size_t{256} << 10;
  const MutexLock lock(mutex_);
  for (std::size_t begin = 0; begin < out.size(); begin += kPieceFloats) {
    const std::size_t count = std::min(kPieceFloats, out.size() - begin);
    std::memcpy(&out[begin], &planes_[0][begin], count * sizeof(float));
    if (copied) copied(begin + count);
  }
}

void DenseStore::ReadAndKeep(std::uint64_t trainer, std::span<float> out) {
  const MutexLock lock(mutex_);
  std::ranges::copy(planes_[0], out.begin());
  pulled_[trainer] = planes_[0];
}

void DenseStore::ApplySum(std::span<const float> gradient, float learning_rate) {
  const MutexLock lock(mutex_);
  Step(gradient, learning_rate);
  for (const Range& range : ranges_) {
    if (range.kind != DenseKind::kStatistic) continue;
    std::ranges::copy(gradient.subspan(range.begin, range.count), &planes_[0][range.begin]);
  }
}

void DenseStore::ApplyOne(std::span<const float> gradient, float learning_rate) {
  const MutexLock lock(mutex_);
  Step(gradient, learning_rate);
  const auto parts = static_cast<float>(std::max<std::uint64_t>(1, trainers_));
  for (const Range& range : ranges_) {
    if (range.kind != DenseKind::kStatistic) continue;
    for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
      planes_[0][i] += (gradient[i] - planes_[0][i]) / parts;
    }
  }
}

void DenseStore::Add(std::span<const float> deltas, std::uint64_t divisor) {
  const MutexLock lock(mutex_);
  const auto parts = static_cast<float>(divisor);
  for (std::size_t i = 0; i < deltas.size(); ++i) planes_[0][i] += deltas[i] / parts;
}

std::vector<float> DenseStore::Compensated(std::uint64_t trainer,
                                           std::span<const float> gradient) const {
  std::vector<float> result(gradient.begin(), gradient.end());
  const MutexLock lock(mutex_);
  const auto found = pulled_.find(trainer);
  if (found == pulled_.end()) return result;
  const std::vector<float>&now = planes_[0], &then = found->second;
  for (const Range& range : ranges_) {
    if (!IsParameter(range.kind)) continue;
    for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
      result[i] += compensation_ * (now[i] - then[i]) * gradient[i] * gradient[i];
    }
  }
  return result;
}

void DenseStore::ReadPlane(std::size_t plane, std::size_t begin, std::span<float> out) const {
  const MutexLock lock(mutex_);
  std::ranges::copy(std::span(planes_[plane]).subspan(begin, out.size()), out.begin());
}

void DenseStore::WritePlane(std::size_t plane, std::size_t begin, std::span<const float> values) {
  const MutexLock lock(mutex_);
  std::ranges::copy(values, std::span(planes_[plane]).subspan(begin, values.size()).begin());
}

std::uint64_t DenseStore::steps() const {
  const MutexLock lock(mutex_);
  return steps_;
}

void DenseStore::SetSteps(std::uint64_t steps) {
  const MutexLock lock(mutex_);
  steps_ = steps;
}

void DenseStore::Step(std::span<const float> gradient, float learning_rate) {
  ++steps_;
  for (const Range& range : ranges_) {
    if (!IsParameter(range.kind)) continue;
    StepRange(range, gradient.subspan(range.begin, range.count),
              learning_rate * range.learning_rate_scale);
  }
}

void DenseStore::StepRange(const Range& range, std::span<const float> gradient,
                           float learning_rate) {
  const auto plane = [&](std::size_t number) PACELINE_REQUIRES(mutex_) {
    return std::span(planes_[number]).subspan(range.begin, range.count);
  };
  const RowOptimizerOptions& o = range.optimizer;
  switch (o.kind) {
    case RowOptimizerKind::kSgd:
      kernel::SgdStep({.learning_rate = learning_rate, .weight_decay = o.weight_decay}, plane(0),
                      gradient, {});
      return;
    case RowOptimizerKind::kMomentum:
      kernel::SgdStep(
          {.learning_rate = learning_rate, .momentum = o.momentum, .weight_decay = o.weight_decay},
          plane(0), gradient, plane(1));
      return;
    case RowOptimizerKind::kAdagrad:
      kernel::AdagradStep(
          {.learning_rate = learning_rate, .epsilon = o.epsilon, .weight_decay = o.weight_decay},
          plane(0), gradient, plane(1));
      return;
    case RowOptimizerKind::kAdam:
    case RowOptimizerKind::kAdamW:
      kernel::AdamStep(AdamOf(o, learning_rate), steps_, plane(0), gradient, plane(1), plane(2));
      return;
    case RowOptimizerKind::kFtrl:
      kernel::FtrlStep(
          {.learning_rate = learning_rate, .beta = o.ftrl_beta, .l1 = o.ftrl_l1, .l2 = o.ftrl_l2},
          plane(0), gradient, plane(1), plane(2));
      return;
  }
}

}  // namespace paceline::ps
