#include "ps/row_store.h"

#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::ps {
namespace {

// Agrees with a map over a long random history of insertions and removals.
TEST(RowStore, BehavesLikeAMap) {
  for (const std::size_t floats : {std::size_t{1}, std::size_t{10}, std::size_t{30'000}}) {
    RowStore store(floats);
    std::map<std::int64_t, float> expected;
    CounterRng rng(testing::TestSeed(), Purpose::kTest, 11, floats);
    const int operations = floats > 1000 ? 300 : 30'000;
    for (int i = 0; i < operations; ++i) {
      // Few ids, so that they come back often; a third of the operations removes.
      const auto id = static_cast<std::int64_t>(rng.Below(3000)) - 1500;
      const bool present = expected.contains(id);
      ASSERT_EQ(store.Find(HashId(id), id) != RowStore::kNoRow, present) << id;
      if (rng.Below(3) == 0) {
        ASSERT_EQ(store.Erase(HashId(id), id), present);
        expected.erase(id);
      } else if (!present) {
        const auto row = store.Insert(HashId(id), id);
        ASSERT_EQ(store.IdOf(row), id);
        store.Floats(row)[0] = store.Floats(row)[floats - 1] = static_cast<float>(i);
        expected[id] = static_cast<float>(i);
      }
      ASSERT_EQ(store.size(), expected.size());
    }
    for (const auto& [id, value] : expected) {
      const auto row = store.Find(HashId(id), id);
      ASSERT_NE(row, RowStore::kNoRow) << id;
      EXPECT_EQ(store.Floats(row)[floats - 1], value) << id;
    }
    std::set<std::int64_t> ids;
    for (const auto row : store.Rows()) ids.insert(store.IdOf(row));
    EXPECT_EQ(ids.size(), expected.size());
  }
}

// In the order of hashes, filling another store with them would take the square of their number.
TEST(RowStore, RowsComeInTheOrderOfTheirInsertion) {
  RowStore store(1);
  std::vector<RowStore::RowNumber> inserted;
  for (std::int64_t id = 0; id < 1000; ++id) inserted.push_back(store.Insert(HashId(id), id));
  EXPECT_EQ(store.Rows(), inserted);
}

TEST(RowStore, RowsNeverMove) {
  RowStore store(10);
  std::vector<const float*> places;
  for (std::int64_t id = 0; id < 20'000; ++id) {
    places.push_back(store.Floats(store.Insert(HashId(id), id)));
  }
  for (std::int64_t id = 0; id < 20'000; ++id) {
    EXPECT_EQ(store.Floats(store.Find(HashId(id), id)), places[static_cast<std::size_t>(id)]);
  }
}

TEST(RowStore, ErasedRowsMakeRoomForNewOnes) {
  RowStore store(10);
  const auto fill = [&](std::int64_t begin) {
    for (std::int64_t id = begin; id < begin + 5000; ++id) store.Insert(HashId(id), id);
  };
  fill(0);
  const std::size_t bytes = store.MemoryBytes();
  for (std::int64_t round = 0; round < 10; ++round) {
    for (std::int64_t id = round * 5000; id < (round + 1) * 5000; ++id) {
      EXPECT_TRUE(store.Erase(HashId(id), id));
    }
    fill((round + 1) * 5000);
  }
  EXPECT_EQ(store.MemoryBytes(), bytes);
}

TEST(RowStore, AnEmptyStoreFindsNothingAndTakesNothing) {
  RowStore store(4);
  EXPECT_EQ(store.Find(HashId(0), 0), RowStore::kNoRow);
  EXPECT_FALSE(store.Erase(HashId(0), 0));
  EXPECT_TRUE(store.Rows().empty());
  EXPECT_EQ(store.MemoryBytes(), 0U);
  store.PrefetchIndex(HashId(0));
  store.PrefetchRow(HashId(0));
}

}  // namespace
}  // namespace paceline::ps
