#include "algo/batch_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "algo/sample_order.h"
#include "base/check.h"

namespace paceline::algo {

namespace {

// Keeps every product and sum below far from overflow.
constexpr std::uint64_t kMaxGlobalBatch = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxSamples = std::uint64_t{1} << 62;

}  // namespace

Status BatchPlan::Validate() const {
  if (dataset_size == 0) return Status::Error(Code::kInvalidArgument, "the dataset is empty");
  if (batch == 0 || shards == 0 || batch > kMaxGlobalBatch / shards) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("a global batch of {} shards x {} samples is not in 1 .. 2^32", shards, batch));
  }
  if (total_samples > kMaxSamples) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("a run of {} samples is above 2^62", total_samples));
  }
  return {};
}

std::uint64_t BatchPlan::Steps() const {
  return (total_samples + GlobalBatch() - 1) / GlobalBatch();
}

std::uint64_t BatchPlan::StepSamples(Step step) const {
  if (step.value() >= Steps()) return 0;
  return std::min(GlobalBatch(), total_samples - step.value() * GlobalBatch());
}

PositionRange BatchPlan::ShardRange(Step step, ShardId shard) const {
  PACELINE_CHECK(shard.value() < shards, "shard beyond the plan");
  if (step.value() >= Steps()) return {total_samples, 0};
  const std::uint64_t begin =
      std::min(total_samples, step.value() * GlobalBatch() + shard.value() * batch);
  return {begin, std::min(batch, total_samples - begin)};
}

std::uint64_t BatchPlan::SampleAt(std::uint64_t position) const {
  return SampleOrder(seed, EpochOf(position), dataset_size).At(position % dataset_size);
}

}  // namespace paceline::algo
