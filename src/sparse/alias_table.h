#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"

namespace paceline::sparse {

// Draws indices with given weights in O(1): Walker's alias method, built by Vose's algorithm.
// Immutable, thread-safe.
class AliasTable {
 public:
  // At least one weight; none negative, at least one positive.
  explicit AliasTable(std::span<const double> weights);

  std::uint32_t Draw(CounterRng& rng) const {
    const std::uint32_t slot = rng.Below(static_cast<std::uint32_t>(slots_.size()));
    return rng.Next() < slots_[slot].own_below ? slot : slots_[slot].other;
  }

 private:
  struct Slot {
    std::uint32_t own_below = 0;  // of 2^32: the slot's own index, else the other one
    std::uint32_t other = 0;
  };
  std::vector<Slot> slots_;
};

}  // namespace paceline::sparse
