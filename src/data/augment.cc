#include "data/augment.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"
#include "data/dataset.h"

namespace paceline::data {

namespace {

constexpr std::size_t kSide = kImageShape.width;
constexpr std::size_t kPad = CropFlip::kPadding;
static_assert(kImageShape.height == kSide);

// x * scale + offset instead of two divisions: one pass that compilers vectorise.
void NormalizeRow(const std::uint8_t* row, float scale, float offset, float* out) {
  for (std::size_t x = 0; x < kSide; ++x) out[x] = static_cast<float>(row[x]) * scale + offset;
}

}  // namespace

CropFlip DrawCropFlip(Augment augment, std::uint64_t seed, std::uint64_t step,
                      std::uint64_t position) {
  if (augment == Augment::kNone) return {};
  CounterRng rng(seed, Purpose::kAugment, step, position);
  CropFlip window;
  window.top = rng.Below(2 * CropFlip::kPadding + 1);
  window.left = rng.Below(2 * CropFlip::kPadding + 1);
  window.flip = rng.Below(2) == 1;
  return window;
}

void Normalize(std::span<const std::uint8_t> image, const CropFlip& window, std::span<float> out,
               PixelScale pixels) {
  PACELINE_CHECK(image.size() == kImagePixels && out.size() == kImagePixels, "image size");
  PACELINE_CHECK(window.top <= 2 * kPad && window.left <= 2 * kPad, "window outside the image");
  std::array<std::uint8_t, kSide + 2 * kPad> padded{};
  std::array<std::uint8_t, kSide> mirrored;
  for (std::size_t channel = 0; channel < kImageShape.channels; ++channel) {
    const bool unit = pixels == PixelScale::kUnit;
    const float scale = 1.0F / (255.0F * (unit ? 1.0F : kChannelStd[channel]));
    const float offset = unit ? 0.0F : -kChannelMean[channel] / kChannelStd[channel];
    for (std::size_t y = 0; y < kSide; ++y) {
      const std::size_t row = channel * kSide + y;
      float* const target = out.data() + row * kSide;
      const std::size_t padded_y = y + window.top;
      if (padded_y < kPad || padded_y >= kSide + kPad) {
        std::fill_n(target, kSide, offset);
        continue;
      }
      std::memcpy(padded.data() + kPad, image.data() + (row + window.top - kPad) * kSide, kSide);
      const std::uint8_t* source = padded.data() + window.left;
      if (window.flip) {
        std::reverse_copy(source, source + kSide, mirrored.begin());
        source = mirrored.data();
      }
      NormalizeRow(source, scale, offset, target);
    }
  }
}

}  // namespace paceline::data
