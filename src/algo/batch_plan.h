#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/status.h"

namespace paceline::algo {

// Sample positions [begin, begin + count) of the run.
struct PositionRange {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

// Which sample every virtual shard of every step holds. The run is one stream of positions:
// position p is place p % n of epoch p / n, shuffled by SampleOrder(seed, epoch). Step k takes the
// next shards * batch positions and cuts them into shards, so each sample of each epoch comes
// exactly once and only the last step of the run may be short (its last shards may be empty).
// Immutable value. Does not know who owns a shard.
struct BatchPlan {
  std::uint64_t seed = 0;
  std::uint64_t dataset_size = 0;
  std::uint64_t batch = 0;          // samples in one shard of one step
  std::uint64_t shards = 1;         // V, fixed for the job
  std::uint64_t total_samples = 0;  // end of the run: epochs * n, or steps * V * batch

  // Everything below requires this to be ok.
  Status Validate() const;

  std::uint64_t GlobalBatch() const { return shards * batch; }
  std::uint64_t Steps() const;
  std::uint64_t StepSamples(Step step) const;                // 0 beyond the end
  PositionRange ShardRange(Step step, ShardId shard) const;  // clipped at the end of the run
  std::uint64_t EpochOf(std::uint64_t position) const { return position / dataset_size; }
  std::uint64_t SampleAt(std::uint64_t position) const;
};

}  // namespace paceline::algo
