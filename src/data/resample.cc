#include "data/resample.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace paceline::data {

namespace {

constexpr int kWeightBits = 14;
constexpr int kRowBits = 7;  // that a row keeps beyond the byte, between the two passes

}  // namespace

void Resampler::Prepare(double from, double length, std::size_t pixels, std::vector<Taps>& taps) {
  const double step = length / static_cast<double>(taps.size());
  const double reach = std::max(step, 1.0);
  std::vector<double> shares;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    Taps& tap = taps[i];
    const double centre = from + (static_cast<double>(i) + 0.5) * step;
    const double low = std::floor(centre - reach + 0.5), high = std::floor(centre + reach + 0.5);
    tap.first = std::min(static_cast<std::size_t>(std::max(low, 0.0)), pixels - 1);
    const std::size_t end =
        std::clamp(static_cast<std::size_t>(std::max(high, 0.0)), tap.first + 1, pixels);
    shares.clear();
    double sum = 0;
    for (std::size_t p = tap.first; p < end; ++p) {
      const double distance = std::abs(static_cast<double>(p) + 0.5 - centre) / reach;
      shares.push_back(std::max(1 - distance, 0.0));
      sum += shares.back();
    }
    // A lone pixel at the very edge can be out of reach; it is the nearest all the same.
    if (sum <= 0) shares[0] = sum = 1;
    tap.weights.resize(shares.size());
    std::int32_t left = 1 << kWeightBits;
    std::size_t largest = 0;
    for (std::size_t k = 0; k < shares.size(); ++k) {
      tap.weights[k] = static_cast<std::int32_t>(std::lround(shares[k] / sum * (1 << kWeightBits)));
      left -= tap.weights[k];
      if (shares[k] > shares[largest]) largest = k;
    }
    tap.weights[largest] += left;  // exactly one: flat areas stay flat
  }
}

void Resampler::Run(const RgbImage& image, const Box& box, std::size_t size, bool flip,
                    const Normalization& normalization, std::span<float> out) {
  PACELINE_CHECK(out.size() == 3 * size * size && image.width > 0 && image.height > 0, "sizes");
  columns_.resize(size);
  rows_.resize(size);
  Prepare(box.x, box.width, image.width, columns_);
  Prepare(box.y, box.height, image.height, rows_);
  if (flip) std::ranges::reverse(columns_);

  std::array<ByteToFloat, 3> to;
  for (std::size_t c = 0; c < 3; ++c) {
    to[c] = ByteToFloatOf(normalization, c);
    to[c].scale /= 1 << (kWeightBits + kRowBits);
  }
  const std::size_t samples = image.width * 3;
  row_.resize(samples);
  for (std::size_t y = 0; y < size; ++y) {
    std::ranges::fill(row_, 1 << (kWeightBits - kRowBits - 1));
    for (std::size_t k = 0; k < rows_[y].weights.size(); ++k) {
      const std::int32_t weight = rows_[y].weights[k];
      const std::uint8_t* const source = image.pixels.data() + (rows_[y].first + k) * samples;
      for (std::size_t i = 0; i < samples; ++i) row_[i] += weight * source[i];
    }
    for (std::int32_t& value : row_) value >>= kWeightBits - kRowBits;
    for (std::size_t x = 0; x < size; ++x) {
      const Taps& taps = columns_[x];
      const std::int32_t* source = row_.data() + taps.first * 3;
      std::int32_t red = 0, green = 0, blue = 0;
      for (const std::int32_t weight : taps.weights) {
        red += weight * source[0];
        green += weight * source[1];
        blue += weight * source[2];
        source += 3;
      }
      float* const target = out.data() + y * size + x;
      target[0] = static_cast<float>(red) * to[0].scale + to[0].offset;
      target[size * size] = static_cast<float>(green) * to[1].scale + to[1].offset;
      target[2 * size * size] = static_cast<float>(blue) * to[2].scale + to[2].offset;
    }
  }
}

}  // namespace paceline::data
