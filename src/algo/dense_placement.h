#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::algo {

// A dense tensor as a server sees it: rows that are never cut.
struct TensorRows {
  std::uint64_t rows = 0;
  std::uint64_t row_floats = 1;  // product of all dimensions but the first

  std::uint64_t floats() const { return rows * row_floats; }
};

// Consecutive rows of one tensor, kept by one server.
struct DenseBlock {
  std::size_t tensor = 0;
  std::uint64_t begin = 0;  // floats from the tensor's first
  std::uint64_t count = 0;
  std::size_t server = 0;

  friend bool operator==(const DenseBlock&, const DenseBlock&) = default;
};

// Which server keeps which part of the dense parameters: blocks of whole rows, spread by size. The
// heaviest server holds at most 2 % more than the mean, or one row more where rows are larger than
// that. In the order of tensors and rows; a pure function of its arguments. Blocks may be small:
// those of one server travel together.
std::vector<DenseBlock> PlaceDense(std::span<const TensorRows> tensors, std::size_t servers);

}  // namespace paceline::algo
