#include "fused/trainer_share.h"

#include <algorithm>

#include "algo/shard_layout.h"

namespace paceline::fused {

std::uint64_t TrainerShare::Rounds() const {
  return (plan.Steps() + steps_per_round - 1) / steps_per_round;
}

std::uint64_t TrainerShare::EndStep(std::uint64_t round) const {
  return std::min(FirstStep(round + 1), plan.Steps());
}

std::vector<algo::PositionRange> TrainerShare::RangesOf(std::uint64_t step) const {
  const algo::ShardLayout layout = algo::ShardLayout::Even(plan.shards, world);
  std::vector<algo::PositionRange> ranges;
  const ShardId end = layout.end(Rank(rank));
  for (ShardId shard = layout.begin(Rank(rank)); shard < end; shard = shard.Next()) {
    ranges.push_back(plan.ShardRange(Step(step), shard));
  }
  return ranges;
}

std::uint64_t TrainerShare::SamplesAfter(std::uint64_t steps) const {
  return std::min(steps * plan.GlobalBatch(), plan.total_samples);
}

}  // namespace paceline::fused
