#include "train/shard_sum.h"

#include "base/check.h"
#include "kernel/reduce.h"

namespace paceline::train {

ShardSum::ShardSum(std::uint64_t shards, std::span<float> total)
    : plan_(algo::SequentialPlan(shards)),
      total_(total),
      slots_(algo::SequentialSlots(shards) - 1, std::vector<float>(total.size())) {}

std::span<float> ShardSum::NextLeaf() {
  PACELINE_CHECK(next_ < plan_.size() && plan_[next_].kind == algo::TreeOp::Kind::kLeaf,
                 "one leaf per shard");
  return Slot(plan_[next_].target);
}

void ShardSum::Commit() {
  ++next_;
  while (next_ < plan_.size() && plan_[next_].kind == algo::TreeOp::Kind::kAdd) {
    kernel::AddInto(Slot(plan_[next_].target), Slot(plan_[next_].source));
    ++next_;
  }
}

}  // namespace paceline::train
