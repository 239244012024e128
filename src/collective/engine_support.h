#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "algo/shard_layout.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"

namespace paceline::collective {

// What engines on foreign libraries have in common.

// The first failure of an engine, which is final. Thread-safe.
class FirstFailure {
 public:
  Status Get() const;
  // Keeps `cause` unless there is one already; returns the one that counts.
  Status Set(const Status& cause);

 private:
  mutable Mutex mutex_;
  Status status_ PACELINE_GUARDED_BY(mutex_);
};

// Zeroed float arrays that begin on a cache line and live as long as this. Thread-compatible.
class FloatArena {
 public:
  std::span<float> Allocate(std::size_t floats);

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::vector<std::unique_ptr<float, Free>> blocks_;
};

// Adds the parts of one rank (see Engine::AllReduce) in the order of the fixed tree; the sum is in
// parts[0]. kInvalidArgument when these are not the parts of that rank.
Status SumParts(const algo::ShardLayout& layout, Rank rank,
                std::span<const std::span<float>> parts);

// kInvalidArgument when `blocks_bytes` is not world blocks of one size.
Status CheckBlocks(std::size_t blocks_bytes, std::uint64_t world);
// kInvalidArgument when there is no such rank.
Status CheckRoot(Rank root, std::uint64_t world);

}  // namespace paceline::collective
