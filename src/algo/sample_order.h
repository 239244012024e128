#pragma once

#include <array>
#include <cstdint>

namespace paceline::algo {

// The shuffled order of one epoch: a bijection on [0, dataset_size) computed in O(1) from
// (seed, epoch, position), so that nobody keeps or exchanges a permutation and any worker can
// start anywhere. A Feistel network on the next power of two, walked until it falls inside.
// Immutable. Not a cryptographic shuffle.
class SampleOrder {
 public:
  // dataset_size > 0.
  SampleOrder(std::uint64_t seed, std::uint64_t epoch, std::uint64_t dataset_size);

  // position < dataset_size.
  std::uint64_t At(std::uint64_t position) const;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t Permute(std::uint64_t x) const;

  std::uint64_t size_;
  unsigned low_bits_;
  std::uint64_t low_mask_;
  std::uint64_t high_mask_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace paceline::algo
