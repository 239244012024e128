#include "collective/local_slots.h"

#include <algorithm>

namespace paceline::collective {

using Kind = LocalOperation::Kind;

std::byte* LocalSlots::Slot(std::size_t rank) const {
  return group_.At(group_.RegionOffset(rank) + offset_ + used_ % 2 * slot_bytes_);
}

Status LocalSlots::Meet(const LocalOperation& operation, Deadline deadline) {
  group_.Publish(operation);
  PACELINE_TRY(group_.Barrier(deadline));
  for (std::size_t i = 0; i < group_.size(); ++i) {
    const auto theirs = group_.Read(i, operation, 1);
    if (!theirs.ok()) return theirs.status();
  }
  return {};
}

Status LocalSlots::Reduce(std::span<float* const> parts, std::size_t count,
                          std::span<const PartOfRank> sources, TreeSum& sum, Deadline deadline) {
  std::size_t parts_of_any = 1;
  for (const PartOfRank& source : sources) parts_of_any = std::max(parts_of_any, source.part + 1);
  const std::size_t most = slot_bytes_ / sizeof(float) / parts_of_any;
  std::vector<const float*> arrays(sources.size());
  for (std::size_t at = 0; at == 0 || at < count; at += most) {
    const std::size_t size = std::min(most, count - at);
    auto* mine = reinterpret_cast<float*>(Slot(group_.index()));
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::copy_n(parts[part] + at, size, mine + part * size);
    }
    PACELINE_TRY(Meet({.kind = Kind::kReduce, .count = size}, deadline));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      arrays[i] = reinterpret_cast<const float*>(Slot(sources[i].rank)) + sources[i].part * size;
    }
    float* const target[] = {parts[0] + at};
    sum.Run(arrays, target, size);
    ++used_;
  }
  return {};
}

Status LocalSlots::AllGather(std::span<std::byte> blocks, Deadline deadline) {
  const std::size_t block = blocks.size() / group_.size();
  for (std::size_t at = 0; at == 0 || at < block; at += slot_bytes_) {
    const std::size_t size = std::min(slot_bytes_, block - at);
    const auto piece = [&](std::size_t i) { return blocks.subspan(i * block + at, size); };
    std::ranges::copy(piece(group_.index()), Slot(group_.index()));
    PACELINE_TRY(Meet({.kind = Kind::kGather, .count = size}, deadline));
    for (std::size_t i = 0; i < group_.size(); ++i) {
      if (i != group_.index()) std::copy_n(Slot(i), size, piece(i).begin());
    }
    ++used_;
  }
  return {};
}

Status LocalSlots::Broadcast(std::span<std::byte> bytes, std::size_t root, Deadline deadline) {
  for (std::size_t at = 0; at == 0 || at < bytes.size(); at += slot_bytes_) {
    const std::size_t size = std::min(slot_bytes_, bytes.size() - at);
    if (group_.index() == root) std::ranges::copy(bytes.subspan(at, size), Slot(root));
    PACELINE_TRY(Meet({.kind = Kind::kBroadcast, .count = size}, deadline));
    if (group_.index() != root) {
      std::copy_n(Slot(root), size, bytes.subspan(at, size).begin());
    }
    ++used_;
  }
  return {};
}

Status LocalSlots::Barrier(Deadline deadline) { return Meet({.kind = Kind::kBarrier}, deadline); }

}  // namespace paceline::collective
