#pragma once

#include <cstdint>
#include <vector>

#include "algo/batch_plan.h"

namespace paceline::algo {

// Which samples one of several trainers computes, and which of them one push covers. Every mode
// cuts the same stream of samples in the same way (algo/batch_plan.h), so that all see the same
// data. A round is what one push covers: one step, or several. Immutable value.
struct TrainerShare {
  BatchPlan plan;
  std::uint64_t rank = 0;
  std::uint64_t world = 1;  // at most plan.shards
  std::uint64_t steps_per_round = 1;
  std::uint64_t lease = 0;      // names its pushes: its rank, or the range that was lent to it
  std::uint64_t begin = 0;      // position of the plan's first sample in the run
  std::uint64_t run_batch = 0;  // samples of a step of the run that the plan is a part of; 0: all

  // A range of the run's samples, for whoever holds it: its steps are `batch` samples each,
  // whatever the number of virtual shards.
  static TrainerShare OfLease(const BatchPlan& run, std::uint64_t number,
                              const PositionRange& range, std::uint64_t steps_per_round);
  bool leased() const { return run_batch > 0; }

  std::uint64_t Rounds() const;
  std::uint64_t FirstStep(std::uint64_t round) const { return round * steps_per_round; }
  std::uint64_t EndStep(std::uint64_t round) const;

  // This trainer's batches of a step, one for each of its virtual shards; the last of a run may be
  // empty.
  std::vector<PositionRange> RangesOf(std::uint64_t step) const;

  // The run's step to which that step of this share belongs: its learning rate.
  std::uint64_t RunStep(std::uint64_t step) const;

  // Samples of the run, of all trainers, when each has done so many steps.
  std::uint64_t SamplesAfter(std::uint64_t steps) const;
};

}  // namespace paceline::algo
