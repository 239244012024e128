#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/cifar10.h"
#include "data/dataset.h"

namespace paceline::data {

inline constexpr std::uint64_t kSyntheticTrainSize = 50'000;
inline constexpr std::uint64_t kSyntheticTestSize = 10'000;

struct SyntheticOptions {
  std::uint64_t seed = 0;
  std::uint64_t size = kSyntheticTrainSize;
  Split split = Split::kTrain;  // the splits share the distribution, never a sample
};

// Ten classes of images with the shape of CIFAR-10; every pixel is a pure function of
// (seed, split, index), so no file is needed and any worker can make any sample.
//
// The seed chooses five gratings; a class is one of the ten pairs of them, added up with random
// phases and strengths, over a random colour, shading and pixel noise. Hence the mean colour and
// any linear function of the pixels say nothing about the class, one grating alone does not
// either, and a convolutional net has to find two textures and their conjunction. Each grating is
// mirrored at random and its phase is random, so flips and crops do not change the class.
//
// Immutable, thread-safe. Does not look like photographs: accuracies compare runs, not papers.
class Synthetic final : public Dataset {
 public:
  explicit Synthetic(const SyntheticOptions& options);

  std::uint64_t size() const override { return options_.size; }
  std::int64_t classes() const override { return kClasses; }
  Status Read(std::uint64_t index, std::span<std::uint8_t> image,
              std::int64_t& label) const override;
  std::string Fingerprint() const override;

 private:
  static constexpr std::int64_t kClasses = 10;
  static constexpr std::size_t kGratings = 5;
  static constexpr std::size_t kSineSteps = 1024;

  // Phase change per pixel in 2^-16 turns.
  struct Grating {
    std::int32_t dx = 0;
    std::int32_t dy = 0;
  };

  SyntheticOptions options_;
  std::array<Grating, kGratings> gratings_;
  std::vector<std::int32_t> sine_;  // -128 .. 128 over one turn; integers, so that every machine
                                    // makes the same bytes
};

}  // namespace paceline::data
