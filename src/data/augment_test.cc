#include "data/augment.h"

#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::data {
namespace {

constexpr std::size_t kSide = 32;

std::vector<std::uint8_t> RandomImage() {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
  std::vector<std::uint8_t> image(kCifarPixels);
  for (std::uint8_t& pixel : image) pixel = static_cast<std::uint8_t>(rng.Below(256));
  return image;
}

// Straight from the definition, pixel by pixel and in double.
double Reference(const std::vector<std::uint8_t>& image, const CropFlip& window,
                 std::size_t channel, std::size_t y, std::size_t x) {
  const std::size_t column = window.flip ? kSide - 1 - x : x;
  const int source_y = static_cast<int>(y + window.top) - 4;
  const int source_x = static_cast<int>(column + window.left) - 4;
  double value = 0;
  if (source_y >= 0 && source_y < 32 && source_x >= 0 && source_x < 32) {
    value = image[(channel * kSide + static_cast<std::size_t>(source_y)) * kSide +
                  static_cast<std::size_t>(source_x)];
  }
  return (value / 255 - double{kCifarNormalization.mean[channel]}) /
         double{kCifarNormalization.std[channel]};
}

TEST(Normalize, MatchesTheDefinitionForEveryWindow) {
  const std::vector<std::uint8_t> image = RandomImage();
  std::vector<float> out(kCifarPixels);
  for (std::uint32_t i = 0; i < 9 * 9 * 2; ++i) {
    const CropFlip window{i / 18, i / 2 % 9, i % 2 == 1};
    Normalize(image, kCifarShape, window, kCifarNormalization, out);
    for (std::size_t p = 0; p < kCifarPixels; ++p) {
      ASSERT_NEAR(out[p], Reference(image, window, p / 1024, p / 32 % 32, p % 32), 1e-5)
          << window.top << " " << window.left << " " << window.flip << " pixel " << p;
    }
  }
}

TEST(Normalize, DefaultWindowIsTheImageItself) {
  const std::vector<std::uint8_t> image = RandomImage();
  std::vector<float> out(kCifarPixels);
  Normalize(image, kCifarShape, {}, kCifarNormalization, out);
  const float last = static_cast<float>(image.back());
  EXPECT_NEAR(out.back(), (last / 255 - kCifarNormalization.mean[2]) / kCifarNormalization.std[2],
              1e-5);
}

TEST(Normalize, TakesAnyShapeAndCanLeaveValuesBetween0And1) {
  const ImageShape shape{3, 5, 70};
  std::vector<std::uint8_t> image(shape.pixels());
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(i * 37);
  image[0] = 255;
  std::vector<float> out(image.size());
  Normalize(image, shape, {}, kUnitRange, out);
  EXPECT_EQ(out[0], 1.0F);
  for (std::size_t i = 0; i < image.size(); ++i) ASSERT_NEAR(out[i], image[i] / 255.0, 1e-6);
  Normalize(image, shape, {.top = 6, .left = 3, .flip = true}, kUnitRange, out);
  EXPECT_NEAR(out[0], image[2 * 70 + 68] / 255.0,
              1e-6);             // two rows down, one column left, mirrored
  EXPECT_EQ(out[4 * 70], 0.0F);  // below the image
}

TEST(DrawCropFlip, ReachesEveryWindowAndNothingElse) {
  std::set<std::tuple<std::uint32_t, std::uint32_t, bool>> seen;
  for (std::uint64_t position = 0; position < 5000; ++position) {
    const CropFlip window = DrawCropFlip(Augment::kStandard, testing::TestSeed(), 1, position);
    ASSERT_LE(window.top, 8U);
    ASSERT_LE(window.left, 8U);
    seen.insert({window.top, window.left, window.flip});
  }
  EXPECT_EQ(seen.size(), 9U * 9U * 2U);
}

TEST(DrawCropFlip, IsAPureFunctionOfSeedStepAndPosition) {
  const auto draw = [](std::uint64_t seed, std::uint64_t step) {
    std::vector<CropFlip> windows;
    for (std::uint64_t position = 0; position < 32; ++position) {
      windows.push_back(DrawCropFlip(Augment::kStandard, seed, step, position));
    }
    return windows;
  };
  EXPECT_EQ(draw(1, 5), draw(1, 5));
  EXPECT_NE(draw(1, 5), draw(1, 6));
  EXPECT_NE(draw(1, 5), draw(2, 5));
}

TEST(DrawCropFlip, NoneNeverMovesTheImage) {
  for (std::uint64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(DrawCropFlip(Augment::kNone, 1, 2, position), CropFlip{});
  }
}

}  // namespace
}  // namespace paceline::data
