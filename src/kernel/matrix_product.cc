#include "kernel/matrix_product.h"

#include <cstring>

#include "base/check.h"

namespace paceline::kernel {

namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);

inline Vector Load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

// Where a tile lies: its first row of `left`, first column of `right`, first element of `sum`.
struct Tile {
  const float* left;
  const float* right;
  float* sum;
};

// Rows x (Vectors * 8) elements, whose sums stay in registers.
template <std::size_t Rows, std::size_t Vectors>
inline void AddTile(const ProductShape& shape, const MatrixView& left, const Tile& tile) {
  Vector sums[Rows][Vectors] = {};
  for (std::size_t k = 0; k < shape.inner; ++k) {
    Vector right[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) {
      right[v] = Load(tile.right + k * shape.columns + v * kFloats);
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      const float factor = tile.left[r * left.row_step + k * left.column_step];
      for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] += factor * right[v];
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t v = 0; v < Vectors; ++v) {
      float* place = tile.sum + r * shape.columns + v * kFloats;
      const Vector total = Load(place) + sums[r][v];
      std::memcpy(place, &total, sizeof(total));
    }
  }
}

template <std::size_t Rows>
void AddRows(const ProductShape& shape, const MatrixView& left, const Tile& rows) {
  constexpr std::size_t kWide = 2;
  std::size_t c = 0;
  for (; c + kWide * kFloats <= shape.columns; c += kWide * kFloats) {
    AddTile<Rows, kWide>(shape, left, {rows.left, rows.right + c, rows.sum + c});
  }
  for (; c + kFloats <= shape.columns; c += kFloats) {
    AddTile<Rows, 1>(shape, left, {rows.left, rows.right + c, rows.sum + c});
  }
  for (; c < shape.columns; ++c) {
    for (std::size_t r = 0; r < Rows; ++r) {
      float sum = 0;
      for (std::size_t k = 0; k < shape.inner; ++k) {
        sum +=
            rows.left[r * left.row_step + k * left.column_step] * rows.right[k * shape.columns + c];
      }
      rows.sum[r * shape.columns + c] += sum;
    }
  }
}

}  // namespace

void AddProduct(const ProductShape& shape, const MatrixView& left, std::span<const float> right,
                std::span<float> sum) {
  PACELINE_CHECK(right.size() == shape.inner * shape.columns, "right factor");
  PACELINE_CHECK(sum.size() == shape.rows * shape.columns, "sum");
  if (shape.rows == 0 || shape.inner == 0) return;
  PACELINE_CHECK(
      left.values.size() > (shape.rows - 1) * left.row_step + (shape.inner - 1) * left.column_step,
      "left factor");
  constexpr std::size_t kAtOnce = 4;
  std::size_t r = 0;
  const auto rows_from = [&](std::size_t row) {
    return Tile{left.values.data() + row * left.row_step, right.data(),
                sum.data() + row * shape.columns};
  };
  for (; r + kAtOnce <= shape.rows; r += kAtOnce) AddRows<kAtOnce>(shape, left, rows_from(r));
  for (; r < shape.rows; ++r) AddRows<1>(shape, left, rows_from(r));
}

void Transpose(std::size_t rows, std::size_t columns, std::span<const float> from,
               std::span<float> to) {
  PACELINE_CHECK(from.size() == rows * columns && to.size() == from.size(), "sizes");
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t r = 0; r < rows; ++r) to[c * rows + r] = from[r * columns + c];
  }
}

}  // namespace paceline::kernel
