#include "kernel/channel_norm.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"

namespace paceline::kernel {

namespace {

constexpr std::size_t kTile = 256;         // channels whose sums are kept at a time: 1 KiB each
constexpr std::size_t kPixelsAtOnce = 32;  // of a tile: 32 KiB, read again from the nearest cache
constexpr float kSix = 6;

template <Gate Which>
using GateIs = std::integral_constant<Gate, Which>;

// Calls body(GateIs<...>()): each gate gets a loop of its own.
template <typename Body>
void WithGate(Gate gate, const Body& body) {
  switch (gate) {
    case Gate::kNone: return body(GateIs<Gate::kNone>());
    case Gate::kRelu: return body(GateIs<Gate::kRelu>());
    case Gate::kRelu6: return body(GateIs<Gate::kRelu6>());
  }
}

// Written so that NaN comes through, or it would be hidden from the NaN policy.
template <Gate Which>
float Activate(float value) {
  if constexpr (Which != Gate::kNone) value = value <= 0.0F ? 0.0F : value;
  if constexpr (Which == Gate::kRelu6) value = value >= kSix ? kSix : value;
  return value;
}

template <Gate Which>
float Gated(float gradient, float output) {
  if constexpr (Which != Gate::kNone) gradient = output <= 0.0F ? 0.0F : gradient;
  if constexpr (Which == Gate::kRelu6) gradient = output >= kSix ? 0.0F : gradient;
  return gradient;
}

// Calls body(first channel, channels) for each tile of the range.
template <typename Body>
void ForEachTile(ChannelRange range, const Body& body) {
  for (std::size_t c = range.begin; c < range.end; c += kTile) {
    body(c, std::min(kTile, range.end - c));
  }
}

// Calls body(first pixel, pixels) for each block.
template <typename Body>
void ForEachBlock(const PixelShape& shape, const Body& body) {
  for (std::size_t p = 0; p < shape.pixels; p += kPixelsAtOnce) {
    body(p, std::min(kPixelsAtOnce, shape.pixels - p));
  }
}

void MomentsOfTile(const PixelShape& shape, const float* input, std::size_t width, float* mean,
                   float* variance) {
  double means[kTile] = {}, squares[kTile] = {};
  ForEachBlock(shape, [&](std::size_t first, std::size_t pixels) {
    float sum[kTile] = {}, block_mean[kTile], block_squares[kTile] = {};
    const float* block = input + first * shape.channels;
    for (std::size_t p = 0; p < pixels; ++p) {
      const float* __restrict x = block + p * shape.channels;
      for (std::size_t c = 0; c < width; ++c) sum[c] += x[c];
    }
    const auto count = static_cast<float>(pixels);
    for (std::size_t c = 0; c < width; ++c) block_mean[c] = sum[c] / count;
    for (std::size_t p = 0; p < pixels; ++p) {
      const float* __restrict x = block + p * shape.channels;
      for (std::size_t c = 0; c < width; ++c) {
        const float centred = x[c] - block_mean[c];
        block_squares[c] += centred * centred;
      }
    }
    // Chan, Golub and LeVeque 1979: moments of two sets from those of each.
    const auto before = static_cast<double>(first), now = static_cast<double>(pixels);
    const double share = now / (before + now), cross = before * share;
    for (std::size_t c = 0; c < width; ++c) {
      const double delta = double{block_mean[c]} - means[c];
      means[c] += delta * share;
      squares[c] += double{block_squares[c]} + delta * delta * cross;
    }
  });
  for (std::size_t c = 0; c < width; ++c) {
    mean[c] = static_cast<float>(means[c]);
    variance[c] = static_cast<float>(squares[c] / static_cast<double>(shape.pixels));
  }
}

// Of one tile; pointers are to its first channel.
struct BackwardTile {
  const float *mean, *slope, *input, *output, *output_gradient;
  float *input_gradient, *addend_gradient;
  std::size_t stride, width;
};

struct TileSums {
  double gradient[kTile] = {};
  double centred[kTile] = {};  // gradient * (x - mean)
};

template <Gate Which, bool Keep>
void AddUp(const PixelShape& shape, const BackwardTile& tile, TileSums& sums) {
  ForEachBlock(shape, [&](std::size_t first, std::size_t pixels) {
    float gradient[kTile] = {}, centred[kTile] = {};
    for (std::size_t p = first; p < first + pixels; ++p) {
      const float* __restrict x = tile.input + p * tile.stride;
      const float* __restrict y = tile.output + p * tile.stride;
      const float* __restrict g = tile.output_gradient + p * tile.stride;
      float* __restrict kept = Keep ? tile.addend_gradient + p * tile.stride : nullptr;
      for (std::size_t c = 0; c < tile.width; ++c) {
        const float gated = Gated<Which>(g[c], y[c]);
        if constexpr (Keep) kept[c] = gated;
        gradient[c] += gated;
        centred[c] += gated * (x[c] - tile.mean[c]);
      }
    }
    for (std::size_t c = 0; c < tile.width; ++c) {
      sums.gradient[c] += double{gradient[c]};
      sums.centred[c] += double{centred[c]};
    }
  });
}

// `mean_gradient` and `projection`: the parts of the gradient that move mean and variance only.
template <Gate Which>
void Distribute(const PixelShape& shape, const BackwardTile& tile, const float* mean_gradient,
                const float* projection) {
  for (std::size_t p = 0; p < shape.pixels; ++p) {
    const float* __restrict x = tile.input + p * tile.stride;
    const float* __restrict y = tile.output + p * tile.stride;
    const float* __restrict g = tile.output_gradient + p * tile.stride;
    float* __restrict out = tile.input_gradient + p * tile.stride;
    for (std::size_t c = 0; c < tile.width; ++c) {
      out[c] = tile.slope[c] * (Gated<Which>(g[c], y[c]) - mean_gradient[c] -
                                (x[c] - tile.mean[c]) * projection[c]);
    }
  }
}

template <Gate Which>
void BackwardOfTile(const PixelShape& shape, BackwardTile tile, const float* inverse_deviation,
                    float* gamma_gradient, float* beta_gradient) {
  TileSums sums;
  const bool keep = tile.addend_gradient != nullptr;
  keep ? AddUp<Which, true>(shape, tile, sums) : AddUp<Which, false>(shape, tile, sums);
  float mean_gradient[kTile], projection[kTile];
  const auto count = static_cast<double>(shape.pixels);
  for (std::size_t c = 0; c < tile.width; ++c) {
    const double inverse = double{inverse_deviation[c]};
    gamma_gradient[c] = static_cast<float>(sums.centred[c] * inverse);
    beta_gradient[c] = static_cast<float>(sums.gradient[c]);
    mean_gradient[c] = static_cast<float>(sums.gradient[c] / count);
    projection[c] = static_cast<float>(sums.centred[c] * inverse * inverse / count);
  }
  if (!keep) return Distribute<Which>(shape, tile, mean_gradient, projection);
  tile.output_gradient = tile.addend_gradient;
  Distribute<Gate::kNone>(shape, tile, mean_gradient, projection);
}

}  // namespace

void PixelMoments(const PixelShape& shape, ChannelRange range, std::span<const float> input,
                  std::span<float> mean, std::span<float> variance) {
  PACELINE_CHECK(input.size() == shape.Elements(), "the span is the tensor");
  ForEachTile(range, [&](std::size_t c, std::size_t width) {
    MomentsOfTile(shape, input.data() + c, width, mean.data() + c, variance.data() + c);
  });
}

void NormPixels(const PixelShape& shape, ChannelRange range, const ChannelLines& lines,
                std::span<const float> input, std::span<const float> addend, Gate gate,
                std::span<float> output) {
  PACELINE_CHECK(input.size() == shape.Elements() && output.size() == input.size() &&
                     (addend.empty() || addend.size() == input.size()),
                 "the spans are the tensor");
  const std::size_t width = range.end - range.begin;
  const float* __restrict mean = lines.mean.data() + range.begin;
  const float* __restrict slope = lines.slope.data() + range.begin;
  const float* __restrict beta = lines.beta.data() + range.begin;
  WithGate(gate, [&]<Gate Which>(GateIs<Which>) {
    for (std::size_t p = 0; p < shape.pixels; ++p) {
      const std::size_t offset = p * shape.channels + range.begin;
      const float* __restrict x = input.data() + offset;
      float* __restrict y = output.data() + offset;
      if (addend.empty()) {
        for (std::size_t c = 0; c < width; ++c) {
          y[c] = Activate<Which>((x[c] - mean[c]) * slope[c] + beta[c]);
        }
        continue;
      }
      const float* __restrict a = addend.data() + offset;
      for (std::size_t c = 0; c < width; ++c) {
        y[c] = Activate<Which>((x[c] - mean[c]) * slope[c] + beta[c] + a[c]);
      }
    }
  });
}

void NormPixelsBackward(const PixelShape& shape, ChannelRange range, const NormPixelsRecord& record,
                        std::span<const float> output_gradient,
                        const NormPixelsGradient& gradient) {
  PACELINE_CHECK(
      record.input.size() == shape.Elements() && record.output.size() == shape.Elements() &&
          output_gradient.size() == shape.Elements() && gradient.input.size() == shape.Elements(),
      "the spans are the tensor");
  WithGate(record.gate, [&]<Gate Which>(GateIs<Which>) {
    ForEachTile(range, [&](std::size_t c, std::size_t width) {
      const BackwardTile tile{
          .mean = record.lines.mean.data() + c,
          .slope = record.lines.slope.data() + c,
          .input = record.input.data() + c,
          .output = record.output.data() + c,
          .output_gradient = output_gradient.data() + c,
          .input_gradient = gradient.input.data() + c,
          .addend_gradient = gradient.addend.empty() ? nullptr : gradient.addend.data() + c,
          .stride = shape.channels,
          .width = width};
      BackwardOfTile<Which>(shape, tile, record.inverse_deviation.data() + c,
                            gradient.gamma.data() + c, gradient.beta.data() + c);
    });
  });
}

}  // namespace paceline::kernel
