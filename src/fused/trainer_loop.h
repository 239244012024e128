#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "algo/learning_rate.h"
#include "algo/trainer_share.h"
#include "base/clock.h"
#include "base/line_vector.h"
#include "base/status.h"
#include "fused/batch_queue.h"
#include "fused/geo_copy.h"
#include "fused/job_description.h"
#include "fused/round_source.h"
#include "job/phases.h"
#include "ps/store.h"
#include "sparse/fused_model.h"

namespace paceline::fused {

// What came of some steps of one trainer.
struct StepOutcome {
  std::uint64_t steps = 0;    // of the run, done so far by this trainer
  std::uint64_t samples = 0;  // computed by this trainer just now
  double loss = 0;            // mean of what the model counts: samples, or words
  double learning_rate = 0;
  std::uint64_t pushes = 0;  // of all trainers that were applied when its parameters were pulled
  bool applied = true;       // false: the loss is not finite, and nothing was changed
};

// The first values of the dense parameters, unless the store has some.
Status InitialiseParameters(const sparse::FusedModel& model, const ps::JobSpec& spec,
                            ps::Store& store, std::uint64_t seed);

// One trainer against a store, in any mode. Batches are prepared by a thread of their own, and rows
// may be pulled by another; gradients are computed and pushed by the caller's. Begins with the
// first batch that the store has not applied yet, so a trainer that died is replaced by making
// another one. Borrows model, specification, store and clock. Thread-compatible.
class TrainerLoop {
 public:
  struct Options {
    Mode mode = Mode::kSync;
    algo::TrainerShare share;
    algo::LearningRateSchedule schedule;
    std::uint64_t trainer = 0;    // which of them this is
    std::uint64_t trainers = 1;   // who share the samples
    std::uint64_t staleness = 0;  // kSsp: rounds ahead of the slowest trainer
    std::size_t prefetch = 2;     // steps prepared in advance
    // Pulls the next round while one is computed, where the mode allows it (RoundSource).
    bool pull_ahead = false;
  };
  static Result<std::unique_ptr<TrainerLoop>> Open(sparse::FusedModel& model,
                                                   const ps::JobSpec& spec, ps::Store& store,
                                                   const Options& options, const Clock& clock);

  std::uint64_t steps() const { return steps_; }  // done so far
  bool Done() const { return steps_ >= options_.share.plan.Steps(); }

  // The next push's worth of steps; of geo, where copies are trained between pushes, one step.
  Result<StepOutcome> Next();

  // Pushes of all trainers that the state has after this trainer's last step: what an evaluation
  // waits for. 0 in modes without such a promise, and where nobody counts trainers.
  std::uint64_t VersionNow() const;

  job::PhaseTimes& phases() { return phases_; }

 private:
  TrainerLoop(sparse::FusedModel& model, const ps::JobSpec& spec, ps::Store& store,
              const Options& options, const Clock& clock);

  std::uint64_t Round() const { return steps_ / options_.share.steps_per_round; }
  Result<StepOutcome> NextRound();
  Result<StepOutcome> NextGeoStep();
  Result<std::unique_ptr<sparse::SparseBatch>> TakeBatch();
  sparse::StepLoss Compute(PulledRound& round, float scale);
  Status PushRound(std::uint64_t number, double learning_rate, const PulledRound& round,
                   bool with_gradients);

  sparse::FusedModel& model_;
  const ps::JobSpec& spec_;
  ps::Store& store_;
  const Options options_;
  const Clock& clock_;
  job::PhaseTimes phases_;
  std::uint64_t steps_ = 0;
  LineVector<float> dense_gradient_, dense_one_;  // one: of one batch of several
  std::optional<GeoCopy> geo_;
  std::unique_ptr<BatchQueue> queue_;
  std::unique_ptr<RoundSource> rounds_;  // not of geo; takes from the queue
};

}  // namespace paceline::fused
