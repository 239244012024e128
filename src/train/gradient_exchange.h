#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "algo/shard_layout.h"
#include "base/ids.h"
#include "base/status.h"
#include "collective/engine.h"
#include "collective/work.h"
#include "train/gradient_places.h"
#include "train/parameters.h"
#include "train/shard_sum.h"

namespace paceline::train {

struct ExchangeOptions {
  // The group; null: this worker owns all shards.
  collective::Engine* engine = nullptr;
  // Runs the engine while backward goes on; null: Wait() reduces everything at once.
  collective::Queue* queue = nullptr;
  algo::ShardLayout layout = algo::ShardLayout::Even(1, 1);
  Rank rank;
  const Clock* clock = &SystemClock();
  std::size_t bucket_bytes = std::size_t{4} << 20;
  std::chrono::milliseconds timeout{300'000};
  // Without a group: told of the tensors of each bucket when their sum is complete, bucket by
  // bucket in the order of SetOrder(), within Put() and FinishShard().
  std::function<void(std::span<const std::size_t> tensors)> ready = nullptr;
};

// Collects the gradients (and running statistics) of this worker's shards in buckets, adds them in
// the order of the fixed tree, and has them reduced over the group: with a queue each bucket as
// soon as its last gradient is there, while backward goes on. Thread-compatible; borrows engine,
// queue and clock.
class GradientExchange final : public GradientPlaces {
 public:
  // Memory comes from the engine. A collective call. Borrows `params`.
  static Result<std::unique_ptr<GradientExchange>> Make(const FlatTensors& params,
                                                        std::size_t statistics,
                                                        const ExchangeOptions& options);

  void StartStep();
  // Where the gradient of a tensor for the current shard belongs; undefined for anything else.
  at::Tensor Of(const at::Tensor& parameter) override;
  // The gradient of one tensor for the current shard, from its place or from elsewhere; once each,
  // in any order.
  void Put(std::size_t tensor, std::span<const float> gradient);
  // The shard is complete. Tensors that were not put count as zero. `statistics` are weighted
  // already.
  void FinishShard(std::span<const float> statistics);
  // After all shards: returns when everything is reduced.
  Status Wait();

  std::span<float> Gradient(std::size_t tensor);
  std::span<float> Statistics() { return Part(0).subspan(statistics_at_, statistics_); }

  // The order in which gradients came, for SetOrder() before another step: buckets are filled one
  // after the other when they are cut in that order. The same on every rank.
  const std::vector<std::uint64_t>& order() const { return order_; }
  void SetOrder(std::span<const std::uint64_t> order);

  // When each bucket of the last step was reduced, or all at once; empty without a group.
  struct Timing {
    std::size_t bytes = 0;
    Instant started{}, finished{};
  };
  std::vector<Timing> Timings() const;

 private:
  struct Bucket {
    std::vector<std::size_t> tensors;
    std::size_t offset = 0, size = 0;  // in each part
    std::vector<ShardSum> sums;        // one for each part
    std::size_t missing = 0;           // tensors still to come for this shard
    std::optional<collective::Work> work;
  };
  struct TensorPlace {
    std::size_t bucket = 0;
    std::size_t offset = 0;  // in the bucket
    std::size_t count = 0;
    bool put = false;  // for the current shard
  };

  GradientExchange(const FlatTensors& params, std::size_t statistics,
                   const ExchangeOptions& options);
  Status Allocate();
  Status ReduceAll();
  std::span<float> Part(std::size_t part) { return parts_[part]; }
  std::span<float> Place(std::size_t tensor);
  void Commit(Bucket& bucket);
  void LaunchReady();

  const FlatTensors& params_;
  ExchangeOptions options_;
  std::vector<algo::TreeNode> nodes_;  // of this worker: one part each
  std::vector<std::span<float>> parts_;
  std::vector<std::vector<float>> own_memory_;  // without an engine
  std::vector<TensorPlace> places_;             // by tensor
  std::vector<Bucket> buckets_;                 // the last one holds the statistics
  std::size_t statistics_ = 0, statistics_at_ = 0, elements_ = 0;
  std::size_t node_ = 0;                // of the current shard
  std::uint64_t shard_ = 0;             // current, among this worker's
  std::size_t next_to_launch_ = 0;      // buckets go out in the same order on every rank
  std::vector<std::uint64_t> arrived_;  // for the current shard
  std::vector<std::uint64_t> order_;    // for the last complete one
  Timing whole_;                        // of the last ReduceAll()
};

}  // namespace paceline::train
