#include "algo/trainer_share.h"

#include <algorithm>

#include "algo/shard_layout.h"

namespace paceline::algo {

std::uint64_t TrainerShare::Rounds() const {
  return (plan.Steps() + steps_per_round - 1) / steps_per_round;
}

std::uint64_t TrainerShare::EndStep(std::uint64_t round) const {
  return std::min(FirstStep(round + 1), plan.Steps());
}

std::vector<PositionRange> TrainerShare::RangesOf(std::uint64_t step) const {
  const ShardLayout layout = ShardLayout::Even(plan.shards, world);
  std::vector<PositionRange> ranges;
  const ShardId end = layout.end(Rank(rank));
  for (ShardId shard = layout.begin(Rank(rank)); shard < end; shard = shard.Next()) {
    PositionRange range = plan.ShardRange(Step(step), shard);
    range.begin += begin;
    ranges.push_back(range);
  }
  return ranges;
}

TrainerShare TrainerShare::OfLease(const BatchPlan& run, std::uint64_t number,
                                   const PositionRange& range, std::uint64_t steps_per_round) {
  TrainerShare share{.plan = run,
                     .steps_per_round = steps_per_round,
                     .lease = number,
                     .begin = range.begin,
                     .run_batch = run.GlobalBatch()};
  share.plan.shards = 1;
  share.plan.total_samples = range.count;
  return share;
}

std::uint64_t TrainerShare::RunStep(std::uint64_t step) const {
  return leased() ? (begin + step * plan.batch) / run_batch : step;
}

std::uint64_t TrainerShare::SamplesAfter(std::uint64_t steps) const {
  return std::min(steps * plan.GlobalBatch(), plan.total_samples);
}

}  // namespace paceline::algo
