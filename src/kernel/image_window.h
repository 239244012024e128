#pragma once

#include <cstddef>
#include <span>

namespace paceline::kernel {

// Convolutions over images [height, width, channels] whose channels lie side by side. All calls are
// for one image unless they say otherwise; the caller may spread images over threads.

// Square windows that step over an image with a border of zeros. A window that reaches beyond the
// border sees zeros, too, so `padding` is that of the upper left corner.
struct WindowShape {
  std::size_t height = 0, width = 0, channels = 0;  // of the image
  std::size_t out_height = 0, out_width = 0;
  std::size_t kernel = 1, stride = 1, padding = 0;

  std::size_t ImageElements() const { return height * width * channels; }
  std::size_t Windows() const { return out_height * out_width; }
  std::size_t WindowElements() const { return kernel * kernel * channels; }
};

// Row i of `windows` [Windows(), kernel, kernel, channels] is what window i sees: a convolution is
// then a matrix product.
void GatherWindows(const WindowShape& shape, std::span<const float> image,
                   std::span<float> windows);
// The reverse: `image` becomes the sum of what all windows say about each pixel, in their order.
void ScatterWindows(const WindowShape& shape, std::span<const float> windows,
                    std::span<float> image);

// Depthwise convolution: every channel has a filter of its own, `weights` [kernel, kernel,
// channels].
void Depthwise(const WindowShape& shape, std::span<const float> image,
               std::span<const float> weights, std::span<float> output);
void DepthwiseInputGradient(const WindowShape& shape, std::span<const float> output_gradient,
                            std::span<const float> weights, std::span<float> image_gradient);
// Adds the gradient of this image to `weight_gradient`.
void AddDepthwiseWeightGradient(const WindowShape& shape, std::span<const float> image,
                                std::span<const float> output_gradient,
                                std::span<float> weight_gradient);

}  // namespace paceline::kernel
