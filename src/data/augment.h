#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "data/dataset.h"

namespace paceline::data {

// What becomes of bytes: (x / 255 - mean) / std, channel by channel.
struct Normalization {
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> std{1, 1, 1};
};

// Over all pixels of CIFAR-10's 50,000 training images. Also of synthetic images, so that the two
// can be exchanged.
inline constexpr Normalization kCifarNormalization{{0.4914F, 0.4822F, 0.4465F},
                                                   {0.2470F, 0.2435F, 0.2616F}};
// What models trained on ImageNet everywhere expect (torchvision).
inline constexpr Normalization kPhotoNormalization{{0.485F, 0.456F, 0.406F},
                                                   {0.229F, 0.224F, 0.225F}};
inline constexpr Normalization kUnitRange{};  // 0 .. 1

// What a byte of one channel is multiplied with, and what is then added.
struct ByteToFloat {
  float scale = 1;
  float offset = 0;
};
ByteToFloat ByteToFloatOf(const Normalization& normalization, std::size_t channel);

enum class Augment {
  kNone,
  kStandard,  // crop after padding with 4 black pixels, horizontal flip (He et al. 2015, 4.2);
              // of photographs see crop.h
};

// Where the window lies in the image padded by 4 on each side; {4, 4, false} is the image itself.
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

// The window as floats. Black padding is normalised like any black pixel. Both spans hold
// shape.pixels() elements; there are 3 channels.
void Normalize(std::span<const std::uint8_t> image, const ImageShape& shape, const CropFlip& window,
               const Normalization& normalization, std::span<float> out);

}  // namespace paceline::data
