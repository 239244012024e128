#include "algo/table_partition.h"

#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::algo {
namespace {

constexpr std::int64_t kIds = 200'000;

// What ids of real tables look like.
const std::vector<std::function<std::int64_t(std::int64_t)>> kPatterns{
    [](std::int64_t i) { return i; },
    [](std::int64_t i) { return -i; },
    [](std::int64_t i) { return i * 64; },
    [](std::int64_t i) { return ((i % 26) << 56) + i / 26; },
};

TEST(ServerOf, SpreadsEveryPatternOfIdsEvenly) {
  for (const auto& pattern : kPatterns) {
    for (const std::uint32_t servers : {1U, 2U, 3U, 5U, 8U, 16U}) {
      std::vector<std::int64_t> counts(servers);
      for (std::int64_t i = 0; i < kIds; ++i) ++counts[ServerOf(pattern(i), servers)];
      for (const std::int64_t count : counts) {
        // Five standard deviations of a binomial are below 5 % here.
        EXPECT_NEAR(static_cast<double>(count) * servers / kIds, 1.0, 0.05) << servers;
      }
    }
  }
}

TEST(ServerOf, AddingAServerMovesOnlyWhatItGets) {
  for (std::uint32_t servers = 1; servers < 9; ++servers) {
    std::int64_t moved = 0;
    for (std::int64_t id = 0; id < kIds; ++id) {
      const std::uint32_t before = ServerOf(id, servers), after = ServerOf(id, servers + 1);
      if (before == after) continue;
      EXPECT_EQ(after, servers);
      ++moved;
    }
    EXPECT_NEAR(static_cast<double>(moved) * (servers + 1) / kIds, 1.0, 0.05) << servers;
  }
}

// Stored tables rely on it: a row is looked for where it was put.
TEST(ServerOf, NeverChanges) {
  const std::vector<std::int64_t> ids{0, 1, 2, 3, 1'000'000'007, -1};
  std::vector<std::uint32_t> servers;
  for (const std::int64_t id : ids) servers.push_back(ServerOf(id, 1000));
  EXPECT_EQ(servers, (std::vector<std::uint32_t>{258, 527, 19, 473, 396, 650}));
}

TEST(TableKey, TellsNamesApart) {
  std::set<std::uint64_t> keys;
  for (const char* name : {"", "a", "b", "ab", "ba", "embedding", "embedding2"}) {
    keys.insert(TableKey(name));
  }
  EXPECT_EQ(keys.size(), 7U);
  EXPECT_EQ(TableKey("embedding"), 3628576235601616512U);
}

}  // namespace
}  // namespace paceline::algo
