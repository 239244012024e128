#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace paceline {

// A number with a meaning. Two tags never mix, so a rank cannot be passed as a step.
template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::uint64_t value) : value_(value) {}

  constexpr std::uint64_t value() const { return value_; }
  constexpr Id Next() const { return Id(value_ + 1); }

  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::uint64_t value_ = 0;
};

using Rank = Id<struct RankTag>;              // position of a worker in the current view
using Generation = Id<struct GenerationTag>;  // of a view or of a checkpoint; only ever grows
using MemberId = Id<struct MemberTag>;  // of a process that joined a job; from 1, never reused
using Step = Id<struct StepTag>;        // optimiser steps since the start of the run
using ShardId = Id<struct ShardTag>;    // virtual shard, 0 .. V-1

}  // namespace paceline

template <typename Tag>
struct std::hash<paceline::Id<Tag>> {
  std::size_t operator()(paceline::Id<Tag> id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value());
  }
};
