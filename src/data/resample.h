#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/augment.h"
#include "data/jpeg.h"

namespace paceline::data {

// Draws a part of an image at another size: bilinear where it grows, averages over a triangle of
// pixels where it shrinks (as Pillow and torchvision with antialias). In integers up to the last
// step, so every machine makes the same numbers. Thread-compatible; keeps its memory.
class Resampler {
 public:
  // Fills 3 planes of size x size. The box lies within the image. `flip`: left and right exchanged.
  void Run(const RgbImage& image, const Box& box, std::size_t size, bool flip,
           const Normalization& normalization, std::span<float> out);

 private:
  // Which pixels of a row or column make one of the result, and how much each counts.
  struct Taps {
    std::size_t first = 0;
    std::vector<std::int32_t> weights;  // their sum is 2^14
  };
  static void Prepare(double from, double length, std::size_t pixels, std::vector<Taps>& taps);

  std::vector<Taps> columns_, rows_;
  std::vector<std::int32_t> row_;  // one of the result's height and the image's width
};

}  // namespace paceline::data
