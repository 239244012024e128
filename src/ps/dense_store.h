#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "ps/dense_order.h"
#include "ps/job_spec.h"
#include "ps/shared_floats.h"

namespace paceline::ps {

// Planes of DenseStore.
std::size_t DensePlanes(RowOptimizerKind kind);

// All of a DenseStore at one moment.
struct DenseCopy {
  std::vector<std::vector<float>> planes;
  std::uint64_t steps = 0;
};

// The dense floats that one server keeps, with their optimiser: one plane of values and one for
// each number that the optimiser remembers of a value. Thread-safe; a call sees and leaves whole
// planes. The caller has checked lengths.
class DenseStore {
 public:
  DenseStore(const JobSpec& spec, std::span<const DensePiece> pieces);

  std::size_t floats() const { return floats_; }
  std::size_t planes() const { return planes_count_; }
  std::size_t MemoryBytes() const;

  void Assign(std::span<const float> values);
  // Tells `copied`, if there is one, how many are copied as it goes on.
  void Read(DenseOrder order, std::span<float> out,
            const std::function<void(std::size_t)>& copied = nullptr) const;
  // For readers in other processes: where the values lie, and how often they have changed so far.
  Result<MemoryOffer> OfferValues() { return values_.Offer(); }
  std::uint64_t Changes() const;
  // Keeps what was read for Compensated().
  void ReadAndKeep(std::uint64_t trainer, DenseOrder order, std::span<float> out);

  // One step of the optimiser with the sum of all trainers' gradients, added as TreeAdder does.
  // Statistics become the sum. `before`, if it is not empty, gets the values of before.
  void ApplySum(std::span<const std::span<const float>> gradients, float learning_rate,
                std::span<float> before);
  // The gradient of one of so many trainers. Statistics move by one part in `trainers` towards what
  // was pushed.
  void ApplyOne(std::span<const float> gradient, float learning_rate, std::uint64_t trainers);
  void Add(std::span<const float> deltas, std::uint64_t divisor);

  // DC-ASGD (Zheng et al., ICML 2017): what the gradient would be at the values of now instead of
  // those that the trainer pulled, to first order with g * g for the Hessian. The gradient itself
  // when the trainer has not pulled.
  std::vector<float> Compensated(std::uint64_t trainer, std::span<const float> gradient) const;

  // For snapshots. Plane 0 has the values.
  DenseCopy Copy() const;
  void WritePlane(std::size_t plane, std::size_t begin, std::span<const float> values);
  std::uint64_t steps() const;  // of the optimiser
  void SetSteps(std::uint64_t steps);

 private:
  // Consecutive floats with the same treatment.
  struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;
    DenseKind kind = DenseKind::kParameter;
    RowOptimizerOptions optimizer;
    float learning_rate_scale = 1;
  };

  // A part of one range that stays in the cache while everything is done with it.
  struct Piece {
    const Range* range = nullptr;
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  using Planes = std::vector<std::span<float>>;

  std::vector<Piece> CutPieces() const;
  // Calls `work` for pieces that are all of them together, in several threads when they are many,
  // with planes that nobody else uses meanwhile.
  using PieceWork = std::function<void(std::span<const Piece> pieces, Planes& planes)>;
  void ForAllPieces(Planes& planes, const PieceWork& work) const;
  static void StepPiece(const Piece& piece, std::span<const float> gradient, float learning_rate,
                        std::uint64_t step, Planes& planes);

  const float compensation_;
  std::vector<Range> ranges_;
  std::size_t floats_ = 0;
  const std::size_t planes_count_;
  std::vector<Piece> pieces_;

  mutable Mutex mutex_;
  SharedFloats values_;                    // plane 0
  std::vector<std::vector<float>> state_;  // the others
  Planes planes_ PACELINE_GUARDED_BY(mutex_);
  std::uint64_t steps_ PACELINE_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, std::vector<float>> pulled_ PACELINE_GUARDED_BY(mutex_);
};

}  // namespace paceline::ps
