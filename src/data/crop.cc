#include "data/crop.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace paceline::data {

namespace {

constexpr double kLeastArea = 0.08;
constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;
constexpr int kTries = 10;  // then the largest middle part that is not too long

Box Middle(double width, double height, double part_width, double part_height) {
  return {(width - part_width) / 2, (height - part_height) / 2, part_width, part_height};
}

}  // namespace

Crop DrawCrop(const CropDraw& draw, std::size_t width, std::size_t height) {
  CounterRng rng(draw.seed, Purpose::kAugment, draw.step, draw.place);
  Crop crop;
  crop.flip = rng.Below(2) == 1;
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  for (int i = 0; i < kTries; ++i) {
    const double area = w * h * (kLeastArea + (1 - kLeastArea) * double{rng.Uniform()});
    const double ratio =
        std::exp(std::log(kNarrowest) + std::log(kWidest / kNarrowest) * double{rng.Uniform()});
    const double part_width = std::round(std::sqrt(area * ratio));
    const double part_height = std::round(std::sqrt(area / ratio));
    if (part_width < 1 || part_height < 1 || part_width > w || part_height > h) continue;
    const auto offset = [&](double room) {
      return static_cast<double>(rng.Below(static_cast<std::uint32_t>(room) + 1));
    };
    const double left = offset(w - part_width);
    crop.box = {left, offset(h - part_height), part_width, part_height};
    return crop;
  }
  crop.box =
      Middle(w, h, std::min(w, std::round(h * kWidest)), std::min(h, std::round(w / kNarrowest)));
  return crop;
}

Crop CentreCrop(std::size_t width, std::size_t height) {
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  const double side = std::min(w, h) * 224 / 256;
  return {.box = Middle(w, h, side, side)};
}

}  // namespace paceline::data
