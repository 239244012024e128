#include "collective/engine_support.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "algo/reduction_tree.h"
#include "kernel/reduce.h"

namespace paceline::collective {

namespace {

constexpr std::align_val_t kCacheLine{64};

// Leaves the sum of all parts in the first one. `nodes` lie inside `root`, in order.
void SumBelow(algo::TreeNode root, std::span<const algo::TreeNode> nodes,
              std::span<const std::span<float>> parts) {
  if (nodes.size() < 2) return;
  const auto first_right =
      std::partition_point(nodes.begin(), nodes.end(),
                           [&](const algo::TreeNode& node) { return node.end <= root.Left().end; });
  const auto lefts = static_cast<std::size_t>(first_right - nodes.begin());
  SumBelow(root.Left(), nodes.first(lefts), parts.first(lefts));
  SumBelow(root.Right(), nodes.subspan(lefts), parts.subspan(lefts));
  if (lefts > 0 && lefts < nodes.size()) kernel::AddInto(parts[0], parts[lefts]);
}

Status Invalid(std::string message) {
  return Status::Error(Code::kInvalidArgument, std::move(message));
}

}  // namespace

Status FirstFailure::Get() const {
  const MutexLock lock(mutex_);
  return status_;
}

Status FirstFailure::Set(const Status& cause) {
  const MutexLock lock(mutex_);
  if (status_.ok()) status_ = cause;
  return status_;
}

void FloatArena::Free::operator()(float* memory) const { ::operator delete(memory, kCacheLine); }

std::span<float> FloatArena::Allocate(std::size_t floats) {
  const std::size_t bytes = std::max<std::size_t>(1, floats) * sizeof(float);
  blocks_.emplace_back(static_cast<float*>(::operator new(bytes, kCacheLine)));
  std::fill_n(blocks_.back().get(), floats, 0.0F);
  return {blocks_.back().get(), floats};
}

Status SumParts(const algo::ShardLayout& layout, Rank rank,
                std::span<const std::span<float>> parts) {
  const std::vector<algo::TreeNode> nodes = layout.NodesOf(rank);
  if (parts.size() != nodes.size()) {
    return Invalid(fmt::format("rank {} brings {} parts, its shards make {}", rank.value(),
                               parts.size(), nodes.size()));
  }
  for (const std::span<float> part : parts) {
    if (part.size() != parts[0].size()) {
      return Invalid(fmt::format("rank {} brings parts of {} and of {} floats", rank.value(),
                                 parts[0].size(), part.size()));
    }
  }
  SumBelow({0, layout.shards()}, nodes, parts);
  return {};
}

Status CheckBlocks(std::size_t blocks_bytes, std::uint64_t world) {
  if (blocks_bytes % world == 0) return {};
  return Invalid(fmt::format("{} bytes are not {} blocks of one size", blocks_bytes, world));
}

Status CheckRoot(Rank root, std::uint64_t world) {
  if (root.value() < world) return {};
  return Invalid(fmt::format("there is no rank {} among {}", root.value(), world));
}

}  // namespace paceline::collective
