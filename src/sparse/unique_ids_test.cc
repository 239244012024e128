#include "sparse/unique_ids.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::sparse {
namespace {

using ::testing::ElementsAre;

TEST(UniqueIds, NumbersInOrderOfFirstAppearance) {
  UniqueIds unique;
  std::vector<std::int64_t> ids;
  unique.Reset(5);
  EXPECT_EQ(unique.Add(7, ids), 0U);
  EXPECT_EQ(unique.Add(0, ids), 1U);
  EXPECT_EQ(unique.Add(7, ids), 0U);
  EXPECT_EQ(unique.Add(-3, ids), 2U);
  EXPECT_THAT(ids, ElementsAre(7, 0, -3));
}

TEST(UniqueIds, OneIdFitsIntoTheSmallestTable) {
  UniqueIds unique;
  std::vector<std::int64_t> ids;
  unique.Reset(0);
  unique.Reset(1);
  EXPECT_EQ(unique.Add(0, ids), 0U);
  EXPECT_EQ(unique.Add(0, ids), 0U);
}

TEST(UniqueIds, BatchesOfAnySizeAgreeWithAMap) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
  UniqueIds unique;
  for (std::size_t count : {10U, 1000U, 3U, 1024U, 0U, 5000U, 1U, 5000U}) {
    std::map<std::int64_t, std::uint32_t> expected;
    std::vector<std::int64_t> ids;
    unique.Reset(count);
    for (std::size_t i = 0; i < count; ++i) {
      // Multiples of a power of two collide in a table that takes the low bits.
      const std::int64_t id = std::int64_t{rng.Below(700)} << 16;
      const auto [entry, is_new] = expected.emplace(id, static_cast<std::uint32_t>(ids.size()));
      ASSERT_EQ(unique.Add(id, ids), entry->second) << is_new;
    }
    EXPECT_EQ(ids.size(), expected.size());
  }
}

}  // namespace
}  // namespace paceline::sparse
