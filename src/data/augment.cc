#include "data/augment.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace paceline::data {

namespace {

constexpr std::size_t kPad = CropFlip::kPadding;

// x * scale + offset instead of two divisions: one pass that compilers vectorise.
void NormalizeRow(const std::uint8_t* row, std::size_t width, const ByteToFloat& to, float* out) {
  for (std::size_t x = 0; x < width; ++x) {
    out[x] = static_cast<float>(row[x]) * to.scale + to.offset;
  }
}

}  // namespace

ByteToFloat ByteToFloatOf(const Normalization& normalization, std::size_t channel) {
  return {.scale = 1.0F / (255.0F * normalization.std[channel]),
          .offset = -normalization.mean[channel] / normalization.std[channel]};
}

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

void Normalize(std::span<const std::uint8_t> image, const ImageShape& shape, const CropFlip& window,
               const Normalization& normalization, std::span<float> out) {
  PACELINE_CHECK(image.size() == shape.pixels() && out.size() == shape.pixels(), "image size");
  PACELINE_CHECK(shape.channels == 3, "red, green and blue");
  PACELINE_CHECK(window.top <= 2 * kPad && window.left <= 2 * kPad, "window outside the image");
  const std::size_t width = shape.width, height = shape.height;
  std::vector<std::uint8_t> padded(width + 2 * kPad);
  std::vector<std::uint8_t> mirrored(width);
  for (std::size_t channel = 0; channel < shape.channels; ++channel) {
    const ByteToFloat to = ByteToFloatOf(normalization, channel);
    for (std::size_t y = 0; y < height; ++y) {
      const std::size_t row = channel * height + y;
      float* const target = out.data() + row * width;
      const std::size_t padded_y = y + window.top;
      if (padded_y < kPad || padded_y >= height + kPad) {
        std::fill_n(target, width, to.offset);
        continue;
      }
      std::memcpy(padded.data() + kPad, image.data() + (row + window.top - kPad) * width, width);
      const std::uint8_t* source = padded.data() + window.left;
      if (window.flip) {
        std::reverse_copy(source, source + width, mirrored.begin());
        source = mirrored.data();
      }
      NormalizeRow(source, width, to, target);
    }
  }
}

}  // namespace paceline::data
