#include "data/synthetic.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "base/rng.h"

namespace paceline::data {

namespace {

constexpr std::size_t kSide = kImageShape.width;
constexpr std::size_t kPlane = kSide * kSide;

// Sample coordinates that no training sample has.
constexpr std::uint64_t kTestBegin = std::uint64_t{1} << 40;
constexpr std::uint64_t kPatternCoordinate = ~std::uint64_t{0};

// The two gratings of each class: all pairs out of five.
constexpr std::array<std::pair<std::size_t, std::size_t>, 10> kPairs{
    {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}}};

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
  std::int32_t gain;     // times the texture, whose peak is about 2^15
  std::int32_t slope_x;  // shading per pixel
  std::int32_t slope_y;
};

std::int32_t Between(CounterRng& rng, std::int32_t low, std::int32_t high) {
  return low + static_cast<std::int32_t>(rng.Below(static_cast<std::uint32_t>(high - low + 1)));
}

void PaintChannel(const Channel& channel, const std::int32_t* texture, std::uint64_t noise_key,
                  std::uint8_t* out) {
  for (std::size_t y = 0; y < kSide; ++y) {
    std::array<std::uint64_t, kSide / 8> words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = NoiseWord(noise_key, y * words.size() + i);
    }
    const std::int32_t row = channel.base + channel.slope_y * static_cast<std::int32_t>(y);
    for (std::size_t x = 0; x < kSide; ++x) {
      const auto byte = static_cast<std::int32_t>((words[x / 8] >> (8 * (x % 8))) & 0xFF);
      // Two uniform nibbles: triangular noise in -15 .. 15, times 1.5.
      const std::int32_t noise = ((byte & 15) + (byte >> 4) - 15) * 384;
      const std::int32_t value = row + channel.slope_x * static_cast<std::int32_t>(x) + noise +
                                 ((texture[y * kSide + x] * channel.gain) >> 8);
      out[y * kSide + x] = static_cast<std::uint8_t>(std::clamp(value >> 8, 0, 255));
    }
  }
}

}  // namespace

Synthetic::Synthetic(const SyntheticOptions& options) : options_(options), sine_(kSineSteps) {
  constexpr double kTurn = 2 * std::numbers::pi;
  for (std::size_t i = 0; i < kSineSteps; ++i) {
    sine_[i] = static_cast<std::int32_t>(
        std::lround(128 * std::sin(kTurn * static_cast<double>(i) / kSineSteps)));
  }
  // Directions spread over a quarter turn, because the mirror image of a direction is the same
  // class; periods alternate between fine and coarse. The seed turns and stretches each a little
  // and decides which direction is fine.
  CounterRng rng(options.seed, Purpose::kSynthetic, kPatternCoordinate, 0);
  const std::size_t fine = rng.Below(2);
  for (std::size_t i = 0; i < kGratings; ++i) {
    const double angle =
        kTurn / 4 * (static_cast<double>(i) / (kGratings - 1) + 0.06 * (rng.Uniform() - 0.5));
    const double period = (i % 2 == fine ? 3.6 : 6.5) * (1 + 0.15 * (rng.Uniform() - 0.5));
    gratings_[i] = {static_cast<std::int32_t>(std::lround(65'536 / period * std::cos(angle))),
                    static_cast<std::int32_t>(std::lround(65'536 / period * std::sin(angle)))};
  }
}

// About 6 us on one core of a 2.5 GHz server (release build).
Status Synthetic::Read(std::uint64_t index, std::span<std::uint8_t> image,
                       std::int64_t& label) const {
  PACELINE_TRY(CheckRead(*this, index, image.size()));
  label = static_cast<std::int64_t>(index % kClasses);
  CounterRng rng(options_.seed, Purpose::kSynthetic,
                 index + (options_.split == Split::kTest ? kTestBegin : 0), 0);

  std::array<std::int32_t, kPlane> texture{};
  const auto& [first, second] = kPairs[static_cast<std::size_t>(label)];
  for (std::size_t which : {first, second}) {
    const Grating& grating = gratings_[which];
    const std::int32_t dx = rng.Below(2) == 0 ? grating.dx : -grating.dx;
    const auto phase = static_cast<std::int32_t>(rng.Below(65'536));
    const std::int32_t strength = Between(rng, 90, 166);
    for (std::size_t i = 0; i < kPlane; ++i) {
      const std::int32_t turns = phase + dx * static_cast<std::int32_t>(i % kSide) +
                                 grating.dy * static_cast<std::int32_t>(i / kSide);
      texture[i] += strength * sine_[static_cast<std::uint32_t>(turns) % 65'536 / 64];
    }
  }

  const std::int32_t contrast = Between(rng, 40, 90);
  for (std::size_t c = 0; c < kImageShape.channels; ++c) {
    const Channel channel{.base = Between(rng, 64, 192) * 256,
                          .gain = contrast * Between(rng, 100, 256) / 256,
                          .slope_x = Between(rng, -512, 512),
                          .slope_y = Between(rng, -512, 512)};
    const std::uint64_t noise_key = (std::uint64_t{rng.Next()} << 32) | rng.Next();
    PaintChannel(channel, texture.data(), noise_key, image.data() + c * kPlane);
  }
  return {};
}

std::string Synthetic::Fingerprint() const {
  return fmt::format("synthetic:1 seed:{} split:{} records:{}", options_.seed,
                     options_.split == Split::kTrain ? "train" : "test", options_.size);
}

}  // namespace paceline::data
