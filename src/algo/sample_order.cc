#include "algo/sample_order.h"

#include <bit>

#include "base/check.h"
#include "base/rng.h"

namespace paceline::algo {

namespace {

// Finaliser of SplitMix64 (Steele et al., OOPSLA'14): every input bit reaches every output bit.
constexpr std::uint64_t MixBits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

SampleOrder::SampleOrder(std::uint64_t seed, std::uint64_t epoch, std::uint64_t dataset_size)
    : size_(dataset_size) {
  PACELINE_CHECK(dataset_size > 0, "an order needs at least one sample");
  const auto bits = static_cast<unsigned>(std::bit_width(dataset_size - 1));
  low_bits_ = bits - bits / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits / 2)) - 1;
  std::uint64_t key = DeriveKey(seed, Purpose::kOrder, epoch, 0);
  for (std::uint64_t& round_key : keys_) {
    key += 0x9E3779B97F4A7C15ULL;
    round_key = MixBits(key);
  }
}

std::uint64_t SampleOrder::Permute(std::uint64_t x) const {
  std::uint64_t low = x & low_mask_;
  std::uint64_t high = x >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    high ^= (MixBits(low + keys_[static_cast<std::size_t>(round)]) >> 32) & high_mask_;
    low ^= (MixBits(high + keys_[static_cast<std::size_t>(round) + 1]) >> 32) & low_mask_;
  }
  return (high << low_bits_) | low;
}

std::uint64_t SampleOrder::At(std::uint64_t position) const {
  PACELINE_CHECK(position < size_, "position beyond the epoch");
  // The domain is less than 2 * size, so fewer than two rounds are expected. The walk ends: it
  // follows a cycle of a permutation and `position` itself lies inside.
  do {
    position = Permute(position);
  } while (position >= size_);
  return position;
}

}  // namespace paceline::algo
