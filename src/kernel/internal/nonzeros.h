#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/internal/listed_rows.h"
#include "kernel/internal/product_tile.h"
#include "kernel/matrix_product.h"

namespace paceline::kernel::internal {

// Part of a row of the left factor.
struct ListSource {
  const float* row;
  std::size_t inner;
  std::uint32_t offset_step;  // what a value of k is worth in offsets
};

// Lists the nonzeros of a source and says how many there are. Stores whole vectors, so what comes
// within kListMargin places behind the last one is overwritten.
inline constexpr std::size_t kListMargin = 16;
std::size_t ListNonzerosAvx2(const ListSource& source, float* values, std::uint32_t* offsets);
std::size_t ListNonzerosAvx512(const ListSource& source, float* values, std::uint32_t* offsets);

// The nonzeros of a left factor, row by row, for one block of k after the other. Thread-compatible;
// its memory only grows.
class Nonzeros {
 public:
  static constexpr std::size_t kMaxBlock = 256;
  struct Shape {
    std::size_t rows, inner;
    std::size_t block;        // values of k; at most kMaxBlock
    std::size_t offset_step;  // what a value of k is worth in offsets; they begin anew in a block
  };
  explicit Nonzeros(Tiles tiles) : tiles_(tiles) {}
  void Assign(const Shape& shape, const MatrixView& left);

  ListedRows OfBlock(std::size_t block) const {
    return {values_.data(), offsets_.data(), ends_.data() + block * rows_, rows_};
  }

 private:
  void Append(const ListSource& source);

  Tiles tiles_;
  std::size_t rows_ = 0;
  std::vector<float> values_;
  std::vector<std::uint32_t> offsets_;
  std::vector<std::size_t> ends_;
};

}  // namespace paceline::kernel::internal
