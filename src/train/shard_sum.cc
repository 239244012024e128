#include "train/shard_sum.h"

#include "base/check.h"
#include "kernel/reduce.h"

namespace paceline::train {

ShardSum::ShardSum(std::uint64_t shards, std::size_t elements)
    : plan_(algo::SequentialPlan(shards)),
      slots_(algo::SequentialSlots(shards), std::vector<float>(elements)) {}

std::span<float> ShardSum::NextLeaf() {
  PACELINE_CHECK(next_ < plan_.size() && plan_[next_].kind == algo::TreeOp::Kind::kLeaf,
                 "one leaf per shard");
  return slots_[plan_[next_].target];
}

void ShardSum::Commit() {
  ++next_;
  while (next_ < plan_.size() && plan_[next_].kind == algo::TreeOp::Kind::kAdd) {
    kernel::AddInto(slots_[plan_[next_].target], slots_[plan_[next_].source]);
    ++next_;
  }
}

std::span<float> ShardSum::Total() {
  PACELINE_CHECK(next_ == plan_.size(), "all shards have contributed");
  return slots_[0];
}

void ShardSum::Start() { next_ = 0; }

}  // namespace paceline::train
