#include "kernel/image_window.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"

namespace paceline::kernel {

namespace {

constexpr std::size_t kTile = 16;  // channels at a time: one cache line, two registers

// The taps of a window that lie inside the image, along one axis.
struct Taps {
  std::size_t begin, end;
  std::size_t first_pixel;  // under tap `begin`
};

Taps TapsInside(std::size_t window, std::size_t extent, const WindowShape& shape) {
  const std::size_t start = window * shape.stride;  // counted with the border
  const std::size_t begin = start < shape.padding ? shape.padding - start : 0;
  const std::size_t limit = extent + shape.padding;
  const std::size_t end = start >= limit ? 0 : std::min(shape.kernel, limit - start);
  return {std::min(begin, end), end, start + begin - shape.padding};
}

// Calls body(window, tap, pixel) for everything that windows see inside of the image, window by
// window and tap by tap.
template <typename Body>
void ForEachTap(const WindowShape& shape, const Body& body) {
  for (std::size_t y = 0; y < shape.out_height; ++y) {
    const Taps rows = TapsInside(y, shape.height, shape);
    for (std::size_t x = 0; x < shape.out_width; ++x) {
      const Taps columns = TapsInside(x, shape.width, shape);
      for (std::size_t ky = rows.begin; ky < rows.end; ++ky) {
        const std::size_t row = (rows.first_pixel + ky - rows.begin) * shape.width;
        for (std::size_t kx = columns.begin; kx < columns.end; ++kx) {
          body(y * shape.out_width + x, ky * shape.kernel + kx,
               row + columns.first_pixel + kx - columns.begin);
        }
      }
    }
  }
}

// Calls body(first channel, channels); the number is a constant of the compiler's where it can be.
template <typename Body>
void ForEachTile(std::size_t channels, const Body& body) {
  std::size_t c = 0;
  for (; c + kTile <= channels; c += kTile) {
    body(c, std::integral_constant<std::size_t, kTile>());
  }
  if (c < channels) body(c, channels - c);
}

void CheckSizes(const WindowShape& shape, std::size_t image, std::size_t weights,
                std::size_t output) {
  PACELINE_CHECK(image == shape.ImageElements() && weights == shape.WindowElements() &&
                     output == shape.Windows() * shape.channels,
                 "the spans have the shape");
}

}  // namespace

void GatherWindows(const WindowShape& shape, std::span<const float> image,
                   std::span<float> windows) {
  PACELINE_CHECK(image.size() == shape.ImageElements() &&
                     windows.size() == shape.Windows() * shape.WindowElements(),
                 "the spans have the shape");
  const bool border = shape.padding > 0 ||
                      (shape.out_height - 1) * shape.stride + shape.kernel > shape.height ||
                      (shape.out_width - 1) * shape.stride + shape.kernel > shape.width;
  if (border) std::ranges::fill(windows, 0.0F);
  const std::size_t taps = shape.kernel * shape.kernel;
  ForEachTap(shape, [&](std::size_t window, std::size_t tap, std::size_t pixel) {
    std::copy_n(image.data() + pixel * shape.channels, shape.channels,
                windows.data() + (window * taps + tap) * shape.channels);
  });
}

void ScatterWindows(const WindowShape& shape, std::span<const float> windows,
                    std::span<float> image) {
  PACELINE_CHECK(image.size() == shape.ImageElements() &&
                     windows.size() == shape.Windows() * shape.WindowElements(),
                 "the spans have the shape");
  std::ranges::fill(image, 0.0F);
  const std::size_t taps = shape.kernel * shape.kernel;
  ForEachTap(shape, [&](std::size_t window, std::size_t tap, std::size_t pixel) {
    const float* __restrict from = windows.data() + (window * taps + tap) * shape.channels;
    float* __restrict to = image.data() + pixel * shape.channels;
    for (std::size_t c = 0; c < shape.channels; ++c) to[c] += from[c];
  });
}

namespace {

// One pixel of the output, tile by tile of its channels.
void DepthwisePixel(const WindowShape& shape, const Taps& rows, const Taps& columns,
                    const float* image, const float* weights, float* out) {
  ForEachTile(shape.channels, [&](std::size_t first, auto tile) {
    float sum[kTile] = {};
    for (std::size_t ky = rows.begin; ky < rows.end; ++ky) {
      const std::size_t row = (rows.first_pixel + ky - rows.begin) * shape.width;
      for (std::size_t kx = columns.begin; kx < columns.end; ++kx) {
        const std::size_t pixel = row + columns.first_pixel + kx - columns.begin;
        const float* __restrict in = image + pixel * shape.channels + first;
        const float* __restrict weight =
            weights + (ky * shape.kernel + kx) * shape.channels + first;
        for (std::size_t c = 0; c < tile; ++c) sum[c] += in[c] * weight[c];
      }
    }
    std::copy_n(sum, std::size_t{tile}, out + first);
  });
}

}  // namespace

void Depthwise(const WindowShape& shape, std::span<const float> image,
               std::span<const float> weights, std::span<float> output) {
  CheckSizes(shape, image.size(), weights.size(), output.size());
  for (std::size_t y = 0; y < shape.out_height; ++y) {
    const Taps rows = TapsInside(y, shape.height, shape);
    for (std::size_t x = 0; x < shape.out_width; ++x) {
      DepthwisePixel(shape, rows, TapsInside(x, shape.width, shape), image.data(), weights.data(),
                     output.data() + (y * shape.out_width + x) * shape.channels);
    }
  }
}

void DepthwiseInputGradient(const WindowShape& shape, std::span<const float> output_gradient,
                            std::span<const float> weights, std::span<float> image_gradient) {
  CheckSizes(shape, image_gradient.size(), weights.size(), output_gradient.size());
  std::ranges::fill(image_gradient, 0.0F);
  ForEachTap(shape, [&](std::size_t window, std::size_t tap, std::size_t pixel) {
    const float* __restrict gradient = output_gradient.data() + window * shape.channels;
    const float* __restrict weight = weights.data() + tap * shape.channels;
    float* __restrict to = image_gradient.data() + pixel * shape.channels;
    for (std::size_t c = 0; c < shape.channels; ++c) to[c] += gradient[c] * weight[c];
  });
}

void AddDepthwiseWeightGradient(const WindowShape& shape, std::span<const float> image,
                                std::span<const float> output_gradient,
                                std::span<float> weight_gradient) {
  CheckSizes(shape, image.size(), weight_gradient.size(), output_gradient.size());
  ForEachTap(shape, [&](std::size_t window, std::size_t tap, std::size_t pixel) {
    const float* __restrict gradient = output_gradient.data() + window * shape.channels;
    const float* __restrict in = image.data() + pixel * shape.channels;
    float* __restrict to = weight_gradient.data() + tap * shape.channels;
    for (std::size_t c = 0; c < shape.channels; ++c) to[c] += gradient[c] * in[c];
  });
}

}  // namespace paceline::kernel
