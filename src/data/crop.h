#pragma once

#include <cstddef>
#include <cstdint>

#include "data/jpeg.h"

namespace paceline::data {

struct Crop {
  Box box;
  bool flip = false;
};

// For training: a part of 8 to 100 % of the area, 3:4 to 4:3 in shape, anywhere; flipped half of
// the time (Szegedy et al. 2015, as torchvision's RandomResizedCrop). A pure function of its
// arguments; `place` counts in the global batch of the step.
struct CropDraw {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t place = 0;
};
Crop DrawCrop(const CropDraw& draw, std::size_t width, std::size_t height);

// For evaluation: the central square that is left when the shorter side is made 256/224 of the
// model's size and the middle is cut out.
Crop CentreCrop(std::size_t width, std::size_t height);

}  // namespace paceline::data
