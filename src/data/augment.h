#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::data {

// Mean and standard deviation of each channel over all pixels of CIFAR-10's 50,000 training images,
// as a share of 255. Used for every image source, so that sources can be exchanged.
inline constexpr std::array<float, 3> kChannelMean{0.4914F, 0.4822F, 0.4465F};
inline constexpr std::array<float, 3> kChannelStd{0.2470F, 0.2435F, 0.2616F};

enum class Augment {
  kNone,
  kStandard,  // crop after padding with 4 black pixels, horizontal flip (He et al. 2015, 4.2)
};

// Where the 32x32 window lies in the padded 40x40 image; {4, 4, false} is the image itself.
struct CropFlip {
  static constexpr std::uint32_t kPadding = 4;
  std::uint32_t top = kPadding;   // 0 .. 8
  std::uint32_t left = kPadding;  // 0 .. 8
  bool flip = false;
  friend bool operator==(const CropFlip&, const CropFlip&) = default;
};

// A pure function of its arguments; `position` counts in the global batch of the step, so the
// choice depends neither on shards nor on workers.
CropFlip DrawCropFlip(Augment augment, std::uint64_t seed, std::uint64_t step,
                      std::uint64_t position);

enum class PixelScale {
  kNormalised,  // (x / 255 - mean) / std of the channel
  kUnit,        // x / 255
};

// The window, scaled, channel by channel. Black padding is normalised like any
// black pixel. Both spans hold kImagePixels elements.
void Normalize(std::span<const std::uint8_t> image, const CropFlip& window, std::span<float> out,
               PixelScale pixels = PixelScale::kNormalised);

}  // namespace paceline::data
