#pragma once

#include <cstddef>
#include <span>

namespace paceline::kernel {

// Batch normalisation of images whose channels lie side by side, as a matrix [pixels, channels]:
// with an addend (the shortcut of a residual block) and an activation in the same pass. Channels
// are independent, so the caller may spread them over threads without changing a bit. Sums are
// added in the order of pixels, 32 at a time in floats, then in doubles. batch_norm.h does the same
// for images that are stored channel by channel, with dropout.

struct PixelShape {
  std::size_t pixels = 0;  // batch * height * width
  std::size_t channels = 0;

  std::size_t Elements() const { return pixels * channels; }
};

struct ChannelRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

enum class Gate {
  kNone,
  kRelu,   // max(0, y); NaN passes
  kRelu6,  // min(6, max(0, y)); NaN passes
};

// Mean and biased variance of each channel of the range.
void PixelMoments(const PixelShape& shape, ChannelRange range, std::span<const float> input,
                  std::span<float> mean, std::span<float> variance);

// One value for each channel: (x - mean) * slope + beta, where slope is gamma / deviation.
struct ChannelLines {
  std::span<const float> mean, slope, beta;
};

// output = gate((input - mean) * slope + beta + addend); no addend when it is empty.
void NormPixels(const PixelShape& shape, ChannelRange range, const ChannelLines& lines,
                std::span<const float> input, std::span<const float> addend, Gate gate,
                std::span<float> output);

struct NormPixelsGradient {
  std::span<float> input, gamma, beta;
  std::span<float> addend;  // empty: not wanted
};
// What NormPixels saw and made; `beta` of the lines is not needed.
struct NormPixelsRecord {
  ChannelLines lines;
  std::span<const float> inverse_deviation;
  std::span<const float> input, output;
  Gate gate = Gate::kNone;
};
// With mean and variance as functions of the input.
void NormPixelsBackward(const PixelShape& shape, ChannelRange range, const NormPixelsRecord& record,
                        std::span<const float> output_gradient, const NormPixelsGradient& gradient);

}  // namespace paceline::kernel
