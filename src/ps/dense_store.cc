#include "ps/dense_store.h"

#include <algorithm>
#include <thread>

#include "base/thread.h"
#include "kernel/optimizer.h"
#include "ps/dense_parts.h"
#include "ps/sync_rounds.h"

namespace paceline::ps {

namespace {

constexpr std::size_t kDensePieceFloats = std::size_t{16} << 10;
constexpr std::size_t kPiecesOfThread = 64;  // fewer are not worth a thread
constexpr std::size_t kMostThreads = 4;

}  // namespace

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
    : compensation_(spec.delay_compensation),
      planes_count_(DensePlanes(spec.dense_optimizer.kind)),
      values_(static_cast<std::size_t>(CountFloats(pieces))) {
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
  pieces_ = CutPieces();
  const MutexLock lock(mutex_);
  state_.assign(planes_count_ - 1, std::vector<float>(floats_));
  planes_.push_back(values_.floats());
  for (std::vector<float>& plane : state_) planes_.emplace_back(plane);
}

std::vector<DenseStore::Piece> DenseStore::CutPieces() const {
  std::vector<Piece> pieces;
  for (const Range& range : ranges_) {
    for (std::size_t done = 0; done < range.count; done += kDensePieceFloats) {
      pieces.push_back({.range = &range,
                        .begin = range.begin + done,
                        .count = std::min(kDensePieceFloats, range.count - done)});
    }
  }
  return pieces;
}

// The caller waits, and trainers that are applied together wait too: cores are free.
void DenseStore::ForAllPieces(Planes& planes, const PieceWork& work) const {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t threads =
      std::clamp<std::size_t>(pieces_.size() / kPiecesOfThread, 1, std::min(cores, kMostThreads));
  const std::size_t each = (pieces_.size() + threads - 1) / threads;
  std::vector<std::jthread> others;
  for (std::size_t begin = each; begin < pieces_.size(); begin += each) {
    const auto pieces = std::span(pieces_).subspan(begin, std::min(each, pieces_.size() - begin));
    others.push_back(StartThread("dense-step", [&, pieces] { work(pieces, planes); }));
  }
  work(std::span(pieces_).first(std::min(each, pieces_.size())), planes);
}

std::size_t DenseStore::MemoryBytes() const {
  const MutexLock lock(mutex_);
  return (planes_.size() + pulled_.size()) * floats_ * sizeof(float);
}

void DenseStore::Assign(std::span<const float> values) { WritePlane(0, 0, values); }

void DenseStore::Read(DenseOrder order, std::span<float> out,
                      const std::function<void(std::size_t)>& copied) const {
  const MutexLock lock(mutex_);
  CopyInOrder(planes_[0], order, out, copied);
}

std::uint64_t DenseStore::Changes() const {
  const MutexLock lock(mutex_);
  return values_.changes();
}

void DenseStore::ReadAndKeep(std::uint64_t trainer, DenseOrder order, std::span<float> out) {
  const MutexLock lock(mutex_);
  CopyInOrder(planes_[0], order, out);
  pulled_[trainer].assign(planes_[0].begin(), planes_[0].end());
}

void DenseStore::ApplySum(std::span<const std::span<const float>> gradients, float learning_rate,
                          std::span<float> before) {
  const MutexLock lock(mutex_);
  const SharedFloats::Change change(values_);
  const std::uint64_t step = ++steps_;
  ForAllPieces(planes_, [&, step](std::span<const Piece> pieces, Planes& planes) {
    TreeAdder adder;
    std::vector<float> sum(kDensePieceFloats);
    std::vector<std::span<const float>> parts(gradients.size());
    for (const Piece& piece : pieces) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        parts[i] = gradients[i].subspan(piece.begin, piece.count);
      }
      const auto values = planes[0].subspan(piece.begin, piece.count);
      std::span<const float> gradient = parts.front();
      if (parts.size() > 1) {
        adder.Add(parts, std::span(sum).first(piece.count));
        gradient = std::span(sum).first(piece.count);
      }
      if (!before.empty()) {
        std::ranges::copy(values, before.subspan(piece.begin, piece.count).begin());
      }
      if (IsParameter(piece.range->kind)) {
        StepPiece(piece, gradient, learning_rate, step, planes);
      } else {
        std::ranges::copy(gradient, values.begin());
      }
    }
  });
}

void DenseStore::ApplyOne(std::span<const float> gradient, float learning_rate,
                          std::uint64_t trainers) {
  const MutexLock lock(mutex_);
  const SharedFloats::Change change(values_);
  const std::uint64_t step = ++steps_;
  const auto parts = static_cast<float>(trainers);
  ForAllPieces(planes_, [&, step](std::span<const Piece> pieces, Planes& planes) {
    for (const Piece& piece : pieces) {
      if (IsParameter(piece.range->kind)) {
        StepPiece(piece, gradient.subspan(piece.begin, piece.count), learning_rate, step, planes);
        continue;
      }
      for (std::size_t i = piece.begin; i < piece.begin + piece.count; ++i) {
        planes[0][i] += (gradient[i] - planes[0][i]) / parts;
      }
    }
  });
}

void DenseStore::Add(std::span<const float> deltas, std::uint64_t divisor) {
  const MutexLock lock(mutex_);
  const SharedFloats::Change change(values_);
  const auto parts = static_cast<float>(divisor);
  for (std::size_t i = 0; i < deltas.size(); ++i) planes_[0][i] += deltas[i] / parts;
}

std::vector<float> DenseStore::Compensated(std::uint64_t trainer,
                                           std::span<const float> gradient) const {
  std::vector<float> result(gradient.begin(), gradient.end());
  const MutexLock lock(mutex_);
  const auto found = pulled_.find(trainer);
  if (found == pulled_.end()) return result;
  const std::span<const float> now = planes_[0], then = found->second;
  for (const Range& range : ranges_) {
    if (!IsParameter(range.kind)) continue;
    for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
      result[i] += compensation_ * (now[i] - then[i]) * gradient[i] * gradient[i];
    }
  }
  return result;
}

DenseCopy DenseStore::Copy() const {
  const MutexLock lock(mutex_);
  DenseCopy copy{.planes = {}, .steps = steps_};
  for (const std::span<const float> plane : planes_) {
    copy.planes.emplace_back(plane.begin(), plane.end());
  }
  return copy;
}

void DenseStore::WritePlane(std::size_t plane, std::size_t begin, std::span<const float> values) {
  const MutexLock lock(mutex_);
  const SharedFloats::Change change(values_);
  std::ranges::copy(values, planes_[plane].subspan(begin, values.size()).begin());
}

std::uint64_t DenseStore::steps() const {
  const MutexLock lock(mutex_);
  return steps_;
}

void DenseStore::SetSteps(std::uint64_t steps) {
  const MutexLock lock(mutex_);
  steps_ = steps;
}

void DenseStore::StepPiece(const Piece& piece, std::span<const float> gradient, float learning_rate,
                           std::uint64_t step, Planes& planes) {
  const auto plane = [&](std::size_t number) {
    return planes[number].subspan(piece.begin, piece.count);
  };
  learning_rate *= piece.range->learning_rate_scale;
  const RowOptimizerOptions& o = piece.range->optimizer;
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
      kernel::AdamStep(AdamOf(o, learning_rate), step, plane(0), gradient, plane(1), plane(2));
      return;
    case RowOptimizerKind::kFtrl:
      kernel::FtrlStep(
          {.learning_rate = learning_rate, .beta = o.ftrl_beta, .l1 = o.ftrl_l1, .l2 = o.ftrl_l2},
          plane(0), gradient, plane(1), plane(2));
      return;
  }
}

}  // namespace paceline::ps
