#include "algo/dense_placement.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace paceline::algo {

namespace {

constexpr std::uint64_t kFineness = 50;  // a block is at most a 50th of a server's share: 2 %

// Blocks of nearly equal size, none larger than `limit` unless a single row is.
void Cut(std::size_t tensor, const TensorRows& shape, std::uint64_t limit,
         std::vector<DenseBlock>& blocks) {
  const std::uint64_t rows_of_limit = std::max<std::uint64_t>(1, limit / shape.row_floats);
  const std::uint64_t parts = (shape.rows + rows_of_limit - 1) / rows_of_limit;
  for (std::uint64_t part = 0; part < parts; ++part) {
    const std::uint64_t first = shape.rows * part / parts, end = shape.rows * (part + 1) / parts;
    blocks.push_back({.tensor = tensor,
                      .begin = first * shape.row_floats,
                      .count = (end - first) * shape.row_floats});
  }
}

}  // namespace

std::vector<DenseBlock> PlaceDense(std::span<const TensorRows> tensors, std::size_t servers) {
  PACELINE_CHECK(servers > 0, "somebody has to keep the parameters");
  std::uint64_t total = 0;
  for (const TensorRows& tensor : tensors) total += tensor.floats();
  const std::uint64_t limit = std::max<std::uint64_t>(1, total / servers / kFineness);
  std::vector<DenseBlock> blocks;
  for (std::size_t i = 0; i < tensors.size(); ++i) Cut(i, tensors[i], limit, blocks);

  // The largest first, each to whoever has least: nobody ends with more than the mean and a block.
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return blocks[a].count > blocks[b].count; });
  std::vector<std::uint64_t> load(servers);
  for (const std::size_t i : order) {
    blocks[i].server = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
    load[blocks[i].server] += blocks[i].count;
  }
  return blocks;
}

}  // namespace paceline::algo
