#include "algo/sample_order.h"

#include <cstdlib>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/seed.h"

namespace paceline::algo {
namespace {

using ::testing::ElementsAre;

std::vector<std::uint64_t> Take(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size,
                                std::uint64_t count) {
  const SampleOrder order(seed, epoch, size);
  std::vector<std::uint64_t> samples;
  for (std::uint64_t i = 0; i < count; ++i) samples.push_back(order.At(i));
  return samples;
}

TEST(SampleOrder, HoldsEverySampleExactlyOnce) {
  for (std::uint64_t size : {1U, 2U, 3U, 7U, 64U, 65U, 1000U, 50'000U}) {
    for (std::uint64_t epoch : {0U, 1U, 2U}) {
      std::vector<int> seen(size, 0);
      for (std::uint64_t sample : Take(testing::TestSeed(), epoch, size, size)) {
        ASSERT_LT(sample, size);
        ASSERT_EQ(++seen[sample], 1) << "sample " << sample << " of " << size;
      }
    }
  }
}

TEST(SampleOrder, DiffersBetweenEpochsAndSeeds) {
  const std::vector<std::uint64_t> first = Take(1, 0, 1000, 1000);
  for (const auto& other : {Take(1, 1, 1000, 1000), Take(2, 0, 1000, 1000)}) {
    int same = 0;
    for (std::size_t i = 0; i < first.size(); ++i) same += first[i] == other[i] ? 1 : 0;
    EXPECT_LT(same, 10);  // two independent orders agree in one place on average
  }
}

// A uniform permutation moves a sample by n/3 on average, and its neighbours are n/3 apart.
TEST(SampleOrder, LooksShuffled) {
  constexpr std::int64_t kSize = 50'000;
  const std::vector<std::uint64_t> order = Take(testing::TestSeed(), 3, kSize, kSize);
  double displacement = 0, gap = 0;
  std::int64_t fixed = 0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    const auto here = static_cast<std::int64_t>(order[static_cast<std::size_t>(i)]);
    const auto next = static_cast<std::int64_t>(order[static_cast<std::size_t>((i + 1) % kSize)]);
    displacement += static_cast<double>(std::abs(here - i));
    gap += static_cast<double>(std::abs(here - next));
    fixed += here == i ? 1 : 0;
  }
  EXPECT_NEAR(displacement / kSize, kSize / 3.0, kSize * 0.01);
  EXPECT_NEAR(gap / kSize, kSize / 3.0, kSize * 0.01);
  EXPECT_LT(fixed, 12);
}

// Every sample should be equally likely at every place; small sizes are the hard case for a
// Feistel network, whose halves have one bit.
TEST(SampleOrder, SmallSizesReachEveryPlaceEquallyOften) {
  for (std::uint64_t size : {2U, 3U, 5U}) {
    constexpr std::uint64_t kEpochs = 6000;
    std::vector<std::vector<int>> count(size, std::vector<int>(size, 0));
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const SampleOrder order(testing::TestSeed(), epoch, size);
      for (std::uint64_t place = 0; place < size; ++place) ++count[place][order.At(place)];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
    for (const auto& row : count) {
      for (int n : row) EXPECT_NEAR(n, expected, 0.15 * expected) << "size " << size;
    }
  }
}

// A run resumed by a newer build must see the same samples: these values never change.
TEST(SampleOrder, IsPinnedByGoldenValues) {
  EXPECT_THAT(Take(0, 0, 7, 7), ElementsAre(5, 4, 6, 2, 1, 0, 3));
  EXPECT_THAT(Take(1, 0, 50'000, 6), ElementsAre(8745, 31645, 16614, 9523, 47151, 19916));
  EXPECT_THAT(Take(1, 1, 50'000, 6), ElementsAre(7005, 19351, 19914, 7628, 27505, 2944));
  EXPECT_THAT(Take(42, 3, 1'281'167, 4), ElementsAre(269439, 464965, 233500, 865858));
}

TEST(SampleOrder, HandlesSizesBeyond32Bits) {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 40) + 12'345;
  const SampleOrder order(5, 0, kSize);
  for (std::uint64_t place : {std::uint64_t{0}, kSize / 2, kSize - 1}) {
    EXPECT_LT(order.At(place), kSize);
  }
}

}  // namespace
}  // namespace paceline::algo
