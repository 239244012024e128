#include "kernel/image_window.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::kernel {
namespace {

WindowShape Shape(std::size_t height, std::size_t width, std::size_t channels, std::size_t kernel,
                  std::size_t stride, std::size_t padding) {
  return {.height = height,
          .width = width,
          .channels = channels,
          .out_height = (height + 2 * padding - kernel) / stride + 1,
          .out_width = (width + 2 * padding - kernel) / stride + 1,
          .kernel = kernel,
          .stride = stride,
          .padding = padding};
}

// Single pixels, windows larger than the image, strides that leave pixels out, odd channels.
std::vector<WindowShape> Shapes() {
  return {Shape(1, 1, 3, 1, 1, 0),
          Shape(1, 1, 5, 3, 1, 1),
          Shape(2, 3, 17, 3, 1, 1),
          Shape(4, 4, 16, 3, 2, 1),
          Shape(5, 4, 33, 1, 2, 0),
          Shape(6, 7, 2, 5, 3, 2),
          // Cut to the taps that see something: reaches beyond the image on the far side only.
          {.height = 2, .width = 2, .channels = 4, .out_height = 1, .out_width = 1, .kernel = 2}};
}

std::vector<float> Random(std::size_t count, std::uint64_t which) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, which, count);
  std::vector<float> values(count);
  for (float& value : values) value = rng.Normal();
  return values;
}

// Pixel (y, x) under a tap; 0 outside of the image.
struct Plain {
  const WindowShape& shape;

  // The index of the pixel in the image, or -1.
  std::ptrdiff_t Pixel(std::size_t window, std::size_t tap) const {
    const auto at = [&](std::size_t out, std::size_t k) {
      return static_cast<std::ptrdiff_t>(out * shape.stride + k) -
             static_cast<std::ptrdiff_t>(shape.padding);
    };
    const std::ptrdiff_t y = at(window / shape.out_width, tap / shape.kernel);
    const std::ptrdiff_t x = at(window % shape.out_width, tap % shape.kernel);
    const auto height = static_cast<std::ptrdiff_t>(shape.height);
    const auto width = static_cast<std::ptrdiff_t>(shape.width);
    return y < 0 || x < 0 || y >= height || x >= width ? -1 : y * width + x;
  }

  template <typename Body>
  void ForEach(const Body& body) const {
    for (std::size_t window = 0; window < shape.Windows(); ++window) {
      for (std::size_t tap = 0; tap < shape.kernel * shape.kernel; ++tap) {
        const std::ptrdiff_t pixel = Pixel(window, tap);
        if (pixel < 0) continue;
        for (std::size_t c = 0; c < shape.channels; ++c) {
          body(window * shape.channels + c, tap * shape.channels + c,
               static_cast<std::size_t>(pixel) * shape.channels + c, window);
        }
      }
    }
  }
};

void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted) {
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-4) << i;
}

TEST(Windows, AreGatheredWithZerosOutside) {
  for (const WindowShape& shape : Shapes()) {
    const std::vector<float> image = Random(shape.ImageElements(), 1);
    std::vector<float> windows = Random(shape.Windows() * shape.WindowElements(), 2);
    std::vector<float> wanted(windows.size());
    Plain{shape}.ForEach([&](std::size_t, std::size_t tap, std::size_t pixel, std::size_t window) {
      wanted[window * shape.WindowElements() + tap] = image[pixel];
    });
    GatherWindows(shape, image, windows);
    EXPECT_EQ(windows, wanted);
  }
}

TEST(Windows, AreScatteredToThePixelsTheySaw) {
  for (const WindowShape& shape : Shapes()) {
    const std::vector<float> windows = Random(shape.Windows() * shape.WindowElements(), 3);
    std::vector<float> image = Random(shape.ImageElements(), 4), wanted(image.size());
    Plain{shape}.ForEach([&](std::size_t, std::size_t tap, std::size_t pixel, std::size_t window) {
      wanted[pixel] += windows[window * shape.WindowElements() + tap];
    });
    ScatterWindows(shape, windows, image);
    ExpectNear(image, wanted);
  }
}

TEST(Depthwise, MatchesTheDefinitionForwardAndBackward) {
  for (const WindowShape& shape : Shapes()) {
    const std::vector<float> image = Random(shape.ImageElements(), 5);
    const std::vector<float> weights = Random(shape.WindowElements(), 6);
    const std::vector<float> gradient = Random(shape.Windows() * shape.channels, 7);
    const std::vector<float> before = Random(shape.WindowElements(), 8);
    std::vector<float> output(gradient.size()), image_gradient(image.size()),
        weight_gradient = before;
    std::vector<float> wanted_output(gradient.size()), wanted_image(image.size()),
        wanted_weights = before;
    Plain{shape}.ForEach([&](std::size_t out, std::size_t tap, std::size_t pixel, std::size_t) {
      wanted_output[out] += image[pixel] * weights[tap];
      wanted_image[pixel] += gradient[out] * weights[tap];
      wanted_weights[tap] += gradient[out] * image[pixel];
    });
    Depthwise(shape, image, weights, output);
    DepthwiseInputGradient(shape, gradient, weights, image_gradient);
    AddDepthwiseWeightGradient(shape, image, gradient, weight_gradient);
    ExpectNear(output, wanted_output);
    ExpectNear(image_gradient, wanted_image);
    ExpectNear(weight_gradient, wanted_weights);
  }
}

}  // namespace
}  // namespace paceline::kernel
