#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernel/internal/product_tile.h"

// Rearranging the factors of a product into what its innermost loops read one after the other.
namespace paceline::kernel::internal {

struct Area {
  std::size_t rows, columns;
};

// Rows of floats, `step` apart.
template <typename Float>
struct Rows {
  Float* first;
  std::size_t step;
};

// Row r, column c of `from` becomes row c, column r of `to`. The area is that of `from`.
void Transpose(const Area& area, const Rows<const float>& from, const Rows<float>& to);
void TransposeWith(Tiles tiles, const Area& area, const Rows<const float>& from,
                   const Rows<float>& to);

// The same with AVX-512 for an area that consists of whole squares with this side.
inline constexpr std::size_t kWideSquare = 16;
void TransposeWideSquares(const Area& area, const Rows<const float>& from, const Rows<float>& to);

// Some columns of the right factor for some values of k.
struct RightPart {
  const float* first;
  std::size_t row_step, column_step;
  std::size_t inner, columns;
};

// Row after row, filled up with zeros to the width of a panel. A width that the compiler knows, a
// std::integral_constant, makes the copies of a narrow panel faster.
template <typename Width>
void PackPanel(const RightPart& part, Width width, float* panel) {
  if (part.columns < width) std::fill_n(panel, part.inner * width, 0.0F);
  if (part.column_step != 1) {
    Transpose({part.columns, part.inner}, {part.first, part.column_step}, {panel, width});
    return;
  }
  for (std::size_t k = 0; k < part.inner; ++k) {
    const float* from = part.first + k * part.row_step;
    if (part.columns == width) {
      std::memcpy(panel + k * width, from, width * sizeof(float));
    } else {
      std::copy_n(from, part.columns, panel + k * width);
    }
  }
}

// Cut into equal parts of at most `most`.
inline std::size_t PartOf(std::size_t whole, std::size_t most) {
  const std::size_t parts = (whole + most - 1) / most;
  return (whole + parts - 1) / parts;
}

}  // namespace paceline::kernel::internal
