#include "data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::uint8_t> Image(const Synthetic& dataset, std::uint64_t index) {
  std::vector<std::uint8_t> image(kCifarPixels);
  std::int64_t label = -1;
  EXPECT_THAT(dataset.Read(index, image, label), IsOk());
  EXPECT_EQ(label, static_cast<std::int64_t>(index % 10));
  return image;
}

TEST(Synthetic, IsAPureFunctionOfSeedSplitAndIndex) {
  const Synthetic small({.seed = 3, .size = 20}), large({.seed = 3, .size = 1000}),
      other({.seed = 4, .size = 20}), held_out({.seed = 3, .size = 20, .split = Split::kTest});
  for (std::uint64_t index : {19U, 0U, 7U}) {
    EXPECT_EQ(Image(small, index), Image(large, index));
    EXPECT_NE(Image(small, index), Image(other, index));
    EXPECT_NE(Image(small, index), Image(held_out, index));
  }
}

// Numbers published for a seed stay comparable: these bytes never change.
TEST(Synthetic, IsPinnedByGoldenValues) {
  const auto first = [](const std::vector<std::uint8_t>& image) {
    return std::vector<std::uint8_t>(image.begin(), image.begin() + 6);
  };
  EXPECT_THAT(first(Image(Synthetic({.seed = 1}), 0)), ElementsAre(140, 152, 132, 116, 81, 92));
  EXPECT_THAT(first(Image(Synthetic({.seed = 1, .split = Split::kTest}), 9)),
              ElementsAre(186, 161, 120, 164, 173, 125));
}

TEST(Synthetic, EveryByteOfAHundredSamplesIsPinned) {
  const auto hash = [](const Synthetic& dataset) {  // FNV-1a
    std::uint64_t value = 0xCBF29CE484222325ULL;
    const auto add = [&](std::uint64_t byte) { value = (value ^ byte) * 0x100000001B3ULL; };
    for (std::uint64_t index = 0; index < 100; ++index) {
      for (const std::uint8_t pixel : Image(dataset, index)) add(pixel);
      add(index % 10);
    }
    return value;
  };
  EXPECT_EQ(hash(Synthetic({.seed = 1})), 0xD2B07BACBF30ED9CULL);
  EXPECT_EQ(hash(Synthetic({.seed = 2, .split = Split::kTest})), 0xAB86482F1400FE18ULL);
}

TEST(Synthetic, AcceptsSizesZeroAndOne) {
  const Synthetic none({.size = 0}), one({.size = 1});
  std::vector<std::uint8_t> image(kCifarPixels);
  std::int64_t label = -1;
  EXPECT_THAT(none.Read(0, image, label), StatusIs(Code::kInvalidArgument, HasSubstr("0 of 0")));
  EXPECT_THAT(one.Read(0, image, label), IsOk());
  EXPECT_THAT(one.Read(1, image, label), StatusIs(Code::kInvalidArgument, HasSubstr("1 of 1")));
}

TEST(Synthetic, SamplesOfOneClassDiffer) {
  const Synthetic dataset({.seed = testing::TestSeed()});
  EXPECT_NE(Image(dataset, 0), Image(dataset, 10));
}

TEST(Synthetic, PixelsAreSeldomClipped) {
  const Synthetic dataset({.seed = testing::TestSeed()});
  std::int64_t clipped = 0;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const auto image = Image(dataset, index);
    clipped +=
        std::ranges::count(image, std::uint8_t{0}) + std::ranges::count(image, std::uint8_t{255});
  }
  EXPECT_LT(clipped, 200 * static_cast<std::int64_t>(kCifarPixels) / 20);
}

// The mean picture of a class carries nothing, so mean colour or a template cannot tell classes.
TEST(Synthetic, ClassMeansAreAllAlike) {
  const Synthetic dataset({.seed = testing::TestSeed()});
  constexpr std::size_t kPerClass = 300;
  for (std::uint64_t label = 0; label < 10; ++label) {
    std::vector<double> mean(kCifarPixels, 0.0);
    for (std::size_t i = 0; i < kPerClass; ++i) {
      const auto image = Image(dataset, label + 10 * i);
      for (std::size_t p = 0; p < kCifarPixels; ++p) mean[p] += double(image[p]) / kPerClass;
    }
    for (double value : mean) ASSERT_NEAR(value, 128, 20);
  }
}

// Energy of the red channel at one wave vector (in turns per 32 pixels), whatever the phase.
double Energy(const std::vector<std::uint8_t>& image, int kx, int ky) {
  static const std::vector<double> cosine = [] {
    std::vector<double> table(32);
    for (int i = 0; i < 32; ++i)
      table[static_cast<std::size_t>(i)] = std::cos(std::acos(-1) * i / 16);
    return table;
  }();
  double re = 0, im = 0;
  for (int i = 0; i < 1024; ++i) {
    const auto turn = static_cast<std::size_t>((kx * (i % 32) + ky * (i / 32)) & 31);
    const double pixel = image[static_cast<std::size_t>(i)];
    re += pixel * cosine[turn];
    im += pixel * cosine[(turn + 24) % 32];
  }
  return re * re + im * im;
}

// Of the red and the blue channel, -1 .. 1.
double Correlation(const std::vector<std::uint8_t>& image) {
  const double red = std::accumulate(image.begin(), image.begin() + 1024, 0.0) / 1024;
  const double blue = std::accumulate(image.begin() + 2048, image.end(), 0.0) / 1024;
  double both = 0, red_only = 0, blue_only = 0;
  for (std::size_t i = 0; i < 1024; ++i) {
    both += (image[i] - red) * (image[2048 + i] - blue);
    red_only += (image[i] - red) * (image[i] - red);
    blue_only += (image[2048 + i] - blue) * (image[2048 + i] - blue);
  }
  return both / std::sqrt(red_only * blue_only);
}

// Phase-free energies over a grid of wave vectors, mirrored ones added together, and whether red
// and blue go together: features that survive flips and shifts, as a convolutional net with pooling
// can compute.
std::vector<double> Texture(const std::vector<std::uint8_t>& image) {
  std::vector<double> features;
  for (int ky = 0; ky <= 9; ++ky) {
    for (int kx = 0; kx <= 9; ++kx) {
      if (kx + ky < 3) continue;  // shading
      features.push_back(std::log1p(Energy(image, kx, ky) + Energy(image, -kx, ky)));
    }
  }
  const double mean =
      std::accumulate(features.begin(), features.end(), 0.0) / static_cast<double>(features.size());
  for (double& feature : features) feature -= mean;  // contrast
  features.push_back(20 * Correlation(image));
  return features;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

TEST(Synthetic, TextureTellsTheClassesOfHeldOutSamplesApart) {
  for (std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}, testing::TestSeed()}) {
    const Synthetic train({.seed = seed}), test({.seed = seed, .split = Split::kTest});
    constexpr std::uint64_t kTrain = 200, kTest = 100;
    std::vector<std::vector<double>> centre(10);
    for (std::uint64_t i = 0; i < kTrain; ++i) {
      const auto features = Texture(Image(train, i));
      auto& sum = centre[i % 10];
      sum.resize(features.size());
      for (std::size_t f = 0; f < sum.size(); ++f) sum[f] += features[f] / (kTrain / 10.0);
    }
    std::uint64_t right = 0;
    for (std::uint64_t i = 0; i < kTest; ++i) {
      const auto features = Texture(Image(test, i));
      const auto best = std::ranges::min_element(
          centre, {}, [&](const auto& c) { return Distance(c, features); });
      right += static_cast<std::uint64_t>(best - centre.begin()) == i % 10 ? 1 : 0;
    }
    EXPECT_GE(right, 90U) << "seed " << seed;
  }
}

// exp(i * speed * n) for n below `count`.
std::vector<std::complex<double>> Turns(double speed, std::size_t count) {
  std::vector<std::complex<double>> turns;
  for (std::size_t n = 0; n < count; ++n) turns.push_back(std::polar(1.0, speed * double(n)));
  return turns;
}

// Energies of each channel at a grid of directions and periods, whatever the phase and the side; a
// convolutional net sees no less.
std::vector<double> ChannelTextures(const std::vector<std::uint8_t>& image,
                                    const ImageShape& shape) {
  constexpr int kDirections = 12, kPeriods = 3;
  std::vector<double> features;
  for (int k = 0; k < kDirections * kPeriods; ++k) {
    const double angle = std::acos(-1) / 2 / (kDirections - 1) * (k % kDirections);
    const double speed = 2 * std::acos(-1) / (3 * std::pow(1.3, k / kDirections));
    std::array<double, 3> energy{};
    for (const double side : {1.0, -1.0}) {
      const auto across = Turns(side * speed * std::cos(angle), shape.width);
      const auto down = Turns(speed * std::sin(angle), shape.height);
      for (std::size_t row = 0; row < 3 * shape.height; row += shape.height) {
        std::complex<double> sum;
        for (std::size_t y = 0; y < shape.height; ++y) {
          std::complex<double> line;
          for (std::size_t x = 0; x < shape.width; ++x) {
            line += across[x] * (image[(row + y) * shape.width + x] - 128.0);
          }
          sum += line * down[y];
        }
        energy[row / shape.height] += std::norm(sum);
      }
    }
    for (const double value : energy) features.push_back(std::log1p(value));
  }
  return features;
}

TEST(Synthetic, ManyClassesOfAnyShapeCanBeToldApart) {
  const SyntheticOptions options{.seed = testing::TestSeed(), .shape = {3, 24, 40}, .classes = 30};
  SyntheticOptions held_out = options;
  held_out.split = Split::kTest;
  const Synthetic train(options), test(held_out);
  const auto features = [&](const Synthetic& dataset, std::uint64_t index) {
    std::vector<std::uint8_t> image(options.shape.pixels());
    std::int64_t label = -1;
    EXPECT_THAT(dataset.Read(index, image, label), IsOk());
    EXPECT_EQ(label, static_cast<std::int64_t>(index % 30));
    return ChannelTextures(image, options.shape);
  };
  std::vector<std::vector<double>> centre(30, std::vector<double>(108));
  for (std::uint64_t i = 0; i < 90; ++i) {
    const auto values = features(train, i);
    for (std::size_t f = 0; f < values.size(); ++f) centre[i % 30][f] += values[f] / 3;
  }
  std::uint64_t right = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto values = features(test, i);
    const auto best =
        std::ranges::min_element(centre, {}, [&](const auto& c) { return Distance(c, values); });
    right += static_cast<std::uint64_t>(best - centre.begin()) == i % 30 ? 1 : 0;
  }
  EXPECT_GE(right, 54U) << "of 60";
}

TEST(Synthetic, HasAnyNumberOfClassesAndAnySize) {
  for (const auto& [side, classes] : {std::pair{224, 1000}, {64, 11}, {7, 3}, {256, 1}}) {
    const auto length = static_cast<std::size_t>(side);
    const Synthetic dataset({.shape = {3, length, length}, .classes = classes});
    std::vector<std::uint8_t> image(dataset.image_shape().pixels());
    std::int64_t label = -1;
    EXPECT_THAT(dataset.Read(1234, image, label), IsOk());
    EXPECT_EQ(label, 1234 % classes);
    const auto clipped =
        std::ranges::count(image, std::uint8_t{0}) + std::ranges::count(image, std::uint8_t{255});
    EXPECT_LT(clipped, static_cast<std::ptrdiff_t>(image.size() / 5));
    EXPECT_THAT(dataset.Fingerprint(), HasSubstr("classes:" + std::to_string(classes)));
  }
}

TEST(Synthetic, FingerprintNamesSeedSplitAndSize) {
  EXPECT_EQ(Synthetic({.seed = 9, .size = 5, .split = Split::kTest}).Fingerprint(),
            "synthetic:1 seed:9 split:test records:5");
}

}  // namespace
}  // namespace paceline::data
