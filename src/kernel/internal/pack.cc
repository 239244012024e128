#include "kernel/internal/pack.h"

#include <cstring>

namespace paceline::kernel::internal {

namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);

Vector Load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

void Store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof(vector)); }

// to[k * to_step + c] = from[c * step + k] for an 8 x 8 square.
void TransposeSquare(const float* from, std::size_t step, float* to, std::size_t to_step) {
  using Pair = double __attribute__((vector_size(32)));
  Vector row[kFloats], mixed[kFloats];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kFloats; ++r) row[r] = Load(from + r * step);
    // Neighbouring rows, then pairs of these, then halves change places.
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kFloats; r += 2) {
    mixed[r] = __builtin_shufflevector(row[r], row[r + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    mixed[r + 1] = __builtin_shufflevector(row[r], row[r + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kFloats; r += 4) {
#pragma GCC unroll 8
    for (std::size_t half = 0; half < 2; ++half) {
      const Pair low = reinterpret_cast<Pair>(mixed[r + half]);
      const Pair high = reinterpret_cast<Pair>(mixed[r + half + 2]);
      row[r + 2 * half] = reinterpret_cast<Vector>(__builtin_shufflevector(low, high, 0, 4, 2, 6));
      row[r + 2 * half + 1] =
          reinterpret_cast<Vector>(__builtin_shufflevector(low, high, 1, 5, 3, 7));
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kFloats / 2; ++r) {
    Store(to + r * to_step, __builtin_shufflevector(row[r], row[r + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    Store(to + (r + 4) * to_step,
          __builtin_shufflevector(row[r], row[r + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

void TransposeNarrow(const Area& area, const Rows<const float>& from, const Rows<float>& to) {
  const auto [rows, columns] = area;
  const std::size_t whole_rows = rows / kFloats * kFloats,
                    whole_columns = columns / kFloats * kFloats;
  for (std::size_t r = 0; r < whole_rows; r += kFloats) {
    for (std::size_t c = 0; c < whole_columns; c += kFloats) {
      TransposeSquare(from.first + r * from.step + c, from.step, to.first + c * to.step + r,
                      to.step);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      to.first[c * to.step + r] = from.first[r * from.step + c];
    }
  }
}

}  // namespace

void Transpose(const Area& area, const Rows<const float>& from, const Rows<float>& to) {
  TransposeWith(BestTiles(), area, from, to);
}

void TransposeWith(Tiles tiles, const Area& area, const Rows<const float>& from,
                   const Rows<float>& to) {
  if (area.rows == 0 || area.columns == 0) return;  // there may be no memory to point into
  const bool wide = tiles == Tiles::kAvx512;
  const std::size_t rows = wide ? area.rows / kWideSquare * kWideSquare : 0;
  const std::size_t columns = wide ? area.columns / kWideSquare * kWideSquare : 0;
  if (wide) TransposeWideSquares({rows, columns}, from, to);
  // What is left: at the end of these rows, and the rows below them.
  TransposeNarrow({rows, area.columns - columns}, {from.first + columns, from.step},
                  {to.first + columns * to.step, to.step});
  TransposeNarrow({area.rows - rows, area.columns}, {from.first + rows * from.step, from.step},
                  {to.first + rows, to.step});
}

}  // namespace paceline::kernel::internal
