#include "algo/dense_placement.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>

#include "base/rng.h"

namespace paceline::algo {
namespace {

std::vector<TensorRows> Vgg16() {
  std::vector<TensorRows> tensors;
  std::uint64_t from = 3;
  for (const std::uint64_t to :
       {64U, 64U, 128U, 128U, 256U, 256U, 256U, 512U, 512U, 512U, 512U, 512U, 512U}) {
    tensors.push_back({to, from * 9});
    for (int i = 0; i < 3; ++i) tensors.push_back({to, 1});  // bias, scale and shift of batch norm
    from = to;
  }
  for (int i = 0; i < 2; ++i) {
    tensors.push_back({512, 512});
    tensors.push_back({512, 1});
  }
  tensors.push_back({10, 512});
  tensors.push_back({10, 1});
  return tensors;
}

std::vector<std::uint64_t> Loads(const std::vector<DenseBlock>& blocks, std::size_t servers) {
  std::vector<std::uint64_t> loads(servers);
  for (const DenseBlock& block : blocks) loads.at(block.server) += block.count;
  return loads;
}

// Every float in one block, in order, and only whole rows.
void ExpectTiled(const std::vector<TensorRows>& tensors, const std::vector<DenseBlock>& blocks) {
  std::vector<std::uint64_t> next(tensors.size());
  for (const DenseBlock& block : blocks) {
    EXPECT_EQ(block.begin, next.at(block.tensor));
    EXPECT_GT(block.count, 0U);
    EXPECT_EQ(block.count % tensors[block.tensor].row_floats, 0U);
    next[block.tensor] += block.count;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(next[i], tensors[i].floats());
}

TEST(DensePlacementTest, NoServerHoldsTwoPercentMoreThanTheMean) {
  const std::vector<TensorRows> tensors = Vgg16();
  for (std::size_t servers = 1; servers <= 20; ++servers) {
    const auto blocks = PlaceDense(tensors, servers);
    ExpectTiled(tensors, blocks);
    const auto loads = Loads(blocks, servers);
    const double mean =
        static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::uint64_t{0})) /
        static_cast<double>(servers);
    EXPECT_LE(static_cast<double>(*std::ranges::max_element(loads)), 1.02 * mean) << servers;
  }
}

TEST(DensePlacementTest, RowsAreNeverCutHoweverLarge) {
  const std::vector<TensorRows> tensors{{3, 1'000'000}, {5, 1}, {0, 7}};
  for (std::size_t servers = 1; servers <= 4; ++servers)
    ExpectTiled(tensors, PlaceDense(tensors, servers));
}

TEST(DensePlacementTest, AnythingIsTiledAndBalancedToARow) {
  CounterRng random(1, Purpose::kTest, 1, 0);
  for (int round = 0; round < 200; ++round) {
    std::vector<TensorRows> tensors(1 + random.Below(20));
    std::uint64_t total = 0, largest_row = 0;
    for (TensorRows& tensor : tensors) {
      tensor = {random.Below(500), 1 + random.Below(300)};
      total += tensor.floats();
      if (tensor.rows > 0) largest_row = std::max(largest_row, tensor.row_floats);
    }
    const std::size_t servers = 1 + random.Below(9);
    const auto blocks = PlaceDense(tensors, servers);
    ExpectTiled(tensors, blocks);
    const auto loads = Loads(blocks, servers);
    const std::uint64_t mean = total / servers;
    EXPECT_LE(*std::ranges::max_element(loads), mean + std::max(mean / 50, largest_row) + 1);
  }
}

TEST(DensePlacementTest, TheSameEverywhere) {
  EXPECT_EQ(PlaceDense(Vgg16(), 3), PlaceDense(Vgg16(), 3));
}

}  // namespace
}  // namespace paceline::algo
