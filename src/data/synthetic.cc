#include "data/synthetic.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/check.h"
#include "base/rng.h"

namespace paceline::data {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// Sample coordinates that no training sample has.
constexpr std::uint64_t kTestBegin = std::uint64_t{1} << 40;
constexpr std::uint64_t kPatternCoordinate = ~std::uint64_t{0};

// Directions (turns) and periods (pixels) that a few 3x3 convolutions can tell apart. All within a
// quarter turn, because the mirror image of a direction is the same class.
struct Grating {
  double direction;
  double period;
};
constexpr std::array<Grating, 5> kGratings{
    {{0, 3.4}, {0, 7}, {0.25, 3.4}, {0.25, 7}, {0.125, 4.8}}};
constexpr std::size_t kFewClasses = 2 * kGratings.size();

// Number k of a set that never ends: four directions, then the next longer period.
Grating GratingOf(std::size_t k) {
  const std::size_t lengthened = k / 4;
  return {.direction = static_cast<double>(k % 4) / 12,
          .period = 3.4 * std::pow(1.43, static_cast<double>(lengthened))};
}

// Counter-based and cheap, 8 bytes a call; Philox for 3072 pixels would cost more than the rest of
// the sample. Finaliser of SplitMix64.
constexpr std::uint64_t NoiseWord(std::uint64_t key, std::uint64_t i) {
  std::uint64_t x = key + i * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// How one channel of one sample is coloured, in 1/256 of a grey level.
struct Channel {
  std::int32_t base;     // at the top left corner
  std::int32_t gain;     // times the texture, whose peak is 2^15
  std::int32_t slope_x;  // shading per pixel
  std::int32_t slope_y;
};

std::int32_t Between(CounterRng& rng, std::int32_t low, std::int32_t high) {
  return low + static_cast<std::int32_t>(rng.Below(static_cast<std::uint32_t>(high - low + 1)));
}

struct Canvas {
  std::size_t height;
  std::size_t width;
  std::uint8_t* pixels;
};

void PaintChannel(const Channel& channel, const std::int32_t* texture, std::uint64_t noise_key,
                  const Canvas& canvas) {
  const std::size_t words = (canvas.width + 7) / 8;  // of noise in a row
  for (std::size_t y = 0; y < canvas.height; ++y) {
    const std::int32_t row = channel.base + channel.slope_y * static_cast<std::int32_t>(y);
    std::uint64_t word = 0;
    for (std::size_t x = 0; x < canvas.width; ++x, word >>= 8) {
      if (x % 8 == 0) word = NoiseWord(noise_key, y * words + x / 8);
      const auto byte = static_cast<std::int32_t>(word & 0xFF);
      // Two uniform nibbles: triangular noise in -15 .. 15.
      const std::int32_t noise = ((byte & 15) + (byte >> 4) - 15) * 256;
      const std::int32_t value = row + channel.slope_x * static_cast<std::int32_t>(x) + noise +
                                 ((texture[y * canvas.width + x] * channel.gain) >> 8);
      canvas.pixels[y * canvas.width + x] =
          static_cast<std::uint8_t>(std::clamp(value >> 8, 0, 255));
    }
  }
}

// A grating, a little different for each seed.
struct Speed {
  std::int32_t dx;
  std::int32_t dy;
};
Speed Vary(const Grating& grating, CounterRng& rng) {
  const double angle = kTurn * (grating.direction + 0.02 * (double{rng.Uniform()} - 0.5));
  const double speed = 65'536 / grating.period * (1 + 0.1 * (double{rng.Uniform()} - 0.5));
  return {.dx = static_cast<std::int32_t>(std::lround(speed * std::cos(angle))),
          .dy = static_cast<std::int32_t>(std::lround(speed * std::sin(angle)))};
}

}  // namespace

Synthetic::Synthetic(const SyntheticOptions& options) : options_(options), sine_(kSineSteps) {
  PACELINE_CHECK(options.classes >= 1 && options.shape.channels == 3, "colour images of classes");
  for (std::size_t i = 0; i < kSineSteps; ++i) {
    sine_[i] = static_cast<std::int32_t>(
        std::lround(128 * std::sin(kTurn * static_cast<double>(i) / kSineSteps)));
  }
  patterns_.resize(static_cast<std::size_t>(options.classes));
  if (patterns_.size() <= kFewClasses) {
    PlantFewClasses();
  } else {
    PlantManyClasses();
  }
}

void Synthetic::PlantFewClasses() {
  CounterRng rng(options_.seed, Purpose::kSynthetic, kPatternCoordinate, 0);
  const std::uint32_t shift = rng.Below(static_cast<std::uint32_t>(patterns_.size()));
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    const Speed speed = Vary(kGratings[i % kGratings.size()], rng);
    Pattern& pattern = patterns_[(i + shift) % patterns_.size()];
    pattern.waves.fill({speed.dx, speed.dy});
    pattern.blue_against_red = i >= kGratings.size();
  }
}

// The gratings of red, green and blue are the digits of a number that runs through the classes.
void Synthetic::PlantManyClasses() {
  std::size_t base = 1;
  while (base * base * base < patterns_.size()) ++base;
  CounterRng rng(options_.seed, Purpose::kSynthetic, kPatternCoordinate, 0);
  const std::uint32_t shift = rng.Below(static_cast<std::uint32_t>(patterns_.size()));
  std::vector<Wave> waves(base);
  for (std::size_t k = 0; k < base; ++k) {
    const Speed speed = Vary(GratingOf(k), rng);
    waves[k] = {speed.dx, speed.dy};
  }
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& pattern = patterns_[(i + shift) % patterns_.size()];
    pattern.waves = {waves[i % base], waves[i / base % base], waves[i / base / base]};
    pattern.one_phase = false;
  }
}

void Synthetic::PaintWave(const Wave& wave, std::int32_t side, std::int32_t phase,
                          std::span<std::int32_t> texture) const {
  const std::size_t width = options_.shape.width;
  for (std::size_t y = 0; y < options_.shape.height; ++y) {
    auto turns = static_cast<std::uint32_t>(phase + wave.dy * static_cast<std::int32_t>(y));
    const auto step = static_cast<std::uint32_t>(side * wave.dx);
    for (std::size_t x = 0; x < width; ++x, turns += step) {
      texture[y * width + x] = 256 * sine_[turns % 65'536 / 64];
    }
  }
}

// About 4 us a sample of 32x32 on one idle core of an AVX2 server (release build).
Status Synthetic::Read(std::uint64_t index, std::span<std::uint8_t> image,
                       std::int64_t& label) const {
  PACELINE_TRY(CheckRead(*this, index, image.size()));
  label = static_cast<std::int64_t>(index % patterns_.size());
  CounterRng rng(options_.seed, Purpose::kSynthetic,
                 index + (options_.split == Split::kTest ? kTestBegin : 0), 0);
  const auto draw_phase = [&] { return static_cast<std::int32_t>(rng.Below(65'536)); };

  const Pattern& pattern = patterns_[static_cast<std::size_t>(label)];
  const std::int32_t side = rng.Below(2) == 0 ? 1 : -1;
  const auto [channels, height, width] = options_.shape;
  std::vector<std::int32_t> texture(height * width);
  if (pattern.one_phase) PaintWave(pattern.waves[0], side, draw_phase(), texture);

  // Signs of red, green and blue; green keeps out of an opposition.
  const std::array<std::int32_t, 3> sign = pattern.blue_against_red
                                               ? std::array<std::int32_t, 3>{1, 0, -1}
                                               : std::array<std::int32_t, 3>{1, 1, 1};
  const std::int32_t contrast = Between(rng, 70, 120);
  // As much shading from side to side whatever the size.
  const auto slope = [&](std::size_t length) {
    return Between(rng, -256, 256) * 32 / static_cast<std::int32_t>(length);
  };
  for (std::size_t c = 0; c < channels; ++c) {
    if (!pattern.one_phase) PaintWave(pattern.waves[c], side, draw_phase(), texture);
    const Channel channel{.base = Between(rng, 90, 166) * 256,
                          .gain = sign[c] * contrast * Between(rng, 180, 256) / 256,
                          .slope_x = slope(width),
                          .slope_y = slope(height)};
    const std::uint64_t noise_key = (std::uint64_t{rng.Next()} << 32) | rng.Next();
    PaintChannel(channel, texture.data(), noise_key,
                 {height, width, image.data() + c * height * width});
  }
  return {};
}

std::string Synthetic::Fingerprint() const {
  std::string text = fmt::format("synthetic:1 seed:{} split:{} records:{}", options_.seed,
                                 options_.split == Split::kTrain ? "train" : "test", options_.size);
  if (options_.shape != kCifarShape || options_.classes != 10) {
    text += fmt::format(" shape:{} classes:{}", options_.shape.Text(), options_.classes);
  }
  return text;
}

}  // namespace paceline::data
