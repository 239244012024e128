#pragma once

#include <array>
#include <cstdint>

namespace paceline {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): a pure
// function from (key, counter) to 128 random bits. Nothing runs, so the numbers of one sample do
// not depend on what was drawn before it, on threads, or on the number of workers.
using PhiloxBlock = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline constexpr std::uint32_t kPhiloxM0 = 0xD2511F53, kPhiloxM1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxW0 = 0x9E3779B9, kPhiloxW1 = 0xBB67AE85;

constexpr PhiloxBlock Philox(PhiloxKey key, PhiloxBlock counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * counter[0];
    const std::uint64_t p1 = std::uint64_t{kPhiloxM1} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key = {key[0] + kPhiloxW0, key[1] + kPhiloxW1};
  }
  return counter;
}

// What the numbers are for. Part of the key, so that two uses never share numbers.
enum class Purpose : std::uint32_t {
  kInit = 1,       // initial parameters; coordinates: tensor, 0
  kOrder = 2,      // shuffle; coordinates: epoch, 0
  kAugment = 3,    // crop and flip; coordinates: step, position in the global batch
  kDropout = 4,    // coordinates: step, shard; the layer goes into Derive()
  kSynthetic = 5,  // generated data; coordinates: sample, 0
  kTest = 6,
  kTableRow = 7,        // initial row of a sparse table; coordinates: table, id
  kTableAdmission = 8,  // which ids a table stores; coordinates: table, id
  kSubsample = 9,       // which words of a text are kept; coordinates: epoch, sentence
  kSkipGram = 10,       // windows and negatives; coordinates: epoch, sentence
  kMixUp = 11,          // how much two samples mix; coordinates: step, position in the global batch
};

// A 64-bit key that is a pure function of its coordinates.
constexpr std::uint64_t DeriveKey(std::uint64_t seed, Purpose purpose, std::uint64_t a,
                                  std::uint64_t b) {
  const PhiloxKey key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const PhiloxBlock first =
      Philox(key, {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32),
                   static_cast<std::uint32_t>(purpose), 0x50414345});
  const PhiloxBlock second = Philox(
      {first[0], first[1]},
      {static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32), first[2], first[3]});
  return (std::uint64_t{second[1]} << 32) | second[0];
}

// A short sequence of numbers at one place, e.g. one sample's augmentation. Thread-compatible.
class CounterRng {
 public:
  explicit constexpr CounterRng(std::uint64_t key)
      : key_{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)} {}
  constexpr CounterRng(std::uint64_t seed, Purpose purpose, std::uint64_t a, std::uint64_t b)
      : CounterRng(DeriveKey(seed, purpose, a, b)) {}

  constexpr std::uint32_t Next() {
    if (used_ == 4) {
      block_ = Philox(key_, {static_cast<std::uint32_t>(counter_),
                             static_cast<std::uint32_t>(counter_ >> 32), 0, 0});
      ++counter_;
      used_ = 0;
    }
    return block_[used_++];
  }

  // Uniform in [0, bound); the bias is below bound / 2^32.
  constexpr std::uint32_t Below(std::uint32_t bound) {
    return static_cast<std::uint32_t>((std::uint64_t{Next()} * bound) >> 32);
  }

  // Uniform in [0, 1) with 24 bits.
  constexpr float Uniform() { return static_cast<float>(Next() >> 8) * 0x1p-24F; }

  // Standard normal (Box-Muller; two draws a number).
  float Normal();

 private:
  PhiloxKey key_;
  PhiloxBlock block_{};
  std::uint64_t counter_ = 0;
  unsigned used_ = 4;
};

}  // namespace paceline
