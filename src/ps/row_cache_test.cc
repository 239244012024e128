#include "ps/row_cache.h"

#include <gmock/gmock.h>

namespace paceline::ps {
namespace {

using ::testing::Optional;

std::int64_t InsertAfterVictim(RowCache& cache, std::int64_t id) {
  std::int64_t left = -1;
  if (const auto victim = cache.Victim()) {
    left = cache.rows().IdOf(*victim);
    cache.Erase(HashId(left), left);
  }
  cache.Insert(HashId(id), id);
  return left;
}

TEST(RowCache, ARowInUseStaysLongerThanOneThatIsNot) {
  RowCache cache(1, 4);
  for (std::int64_t id = 0; id < 4; ++id) EXPECT_EQ(InsertAfterVictim(cache, id), -1);
  EXPECT_EQ(InsertAfterVictim(cache, 4), 0);  // all in use: the first in the round leaves
  cache.Find(HashId(1), 1);
  EXPECT_EQ(InsertAfterVictim(cache, 5), 2);
  EXPECT_EQ(InsertAfterVictim(cache, 6), 3);
  EXPECT_EQ(cache.rows().size(), 4U);
}

TEST(RowCache, RemembersWhatWasChanged) {
  RowCache cache(1, 2);
  const auto row = cache.Insert(HashId(7), 7);
  EXPECT_FALSE(cache.changed(row));
  cache.SetChanged(row);
  EXPECT_TRUE(cache.changed(row));
  cache.SetWritten(row);
  EXPECT_FALSE(cache.changed(row));
  cache.SetChanged(row);
  cache.Erase(HashId(7), 7);
  EXPECT_FALSE(cache.changed(cache.Insert(HashId(8), 8)));
}

TEST(RowCache, HasRoomForOneRowAtLeast) {
  RowCache cache(1, 0);
  EXPECT_EQ(InsertAfterVictim(cache, 1), -1);
  EXPECT_EQ(InsertAfterVictim(cache, 2), 1);
  EXPECT_THAT(cache.Victim(), Optional(cache.Find(HashId(2), 2)));
}

}  // namespace
}  // namespace paceline::ps
