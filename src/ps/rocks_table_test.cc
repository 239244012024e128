// What is promised of the table on RocksDB alone. table_test.cc has what every table promises.
#include "ps/rocks_table.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::ps {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TableOptions Options() { return {.name = "words", .dim = 10, .stripes = 4}; }

// Adds 1 to the first float of each of `rows` rows, in calls of 1000.
void AddOne(Table& table, std::int64_t rows) {
  std::vector<std::int64_t> ids(1000);
  std::vector<float> deltas(10'000);
  for (std::size_t i = 0; i < deltas.size(); i += 10) deltas[i] = 1.0F;
  for (std::int64_t begin = 0; begin < rows; begin += 1000) {
    std::iota(ids.begin(), ids.end(), begin);
    ASSERT_THAT(table.Add(ids, deltas), IsOk());
  }
}

TEST(RocksTable, ATableLargerThanItsMemoryKeepsEveryRow) {
  constexpr std::int64_t kRows = 30'000;
  constexpr std::size_t kCacheBytes = 200'000;  // a tenth of the rows
  const testing::TempDir dir(testing::TempDir::Place::kMemory);
  const auto table = OpenRocksTable(
      Options(), {.folder = dir / "t", .cache_bytes = kCacheBytes, .block_cache_bytes = 1 << 20});
  ASSERT_THAT(table, IsOk());
  AddOne(**table, kRows);
  AddOne(**table, kRows);
  EXPECT_EQ((*table)->Size(), static_cast<std::uint64_t>(kRows));
  std::uint64_t visited = 0;
  ASSERT_THAT((*table)->ForEachRow([&](const TableRow& row) -> Status {
    ++visited;
    EXPECT_EQ(row.values[0], 2.0F) << row.id;
    return {};
  }),
              IsOk());
  EXPECT_EQ(visited, static_cast<std::uint64_t>(kRows));
}

TEST(RocksTable, RowsInMemoryAreBoundedByTheirNumber) {
  const testing::TempDir dir(testing::TempDir::Place::kMemory);
  const auto table = OpenRocksTable(
      Options(), {.folder = dir / "t", .cache_bytes = 400'000, .block_cache_bytes = 1 << 20});
  ASSERT_THAT(table, IsOk());
  AddOne(**table, 20'000);
  // Cache, a chunk of 64 KB that a stripe does not fill, blocks, and two buffers of RocksDB.
  EXPECT_LT((*table)->MemoryBytes(), 400'000 + 4 * 65'536 + (1 << 20) + (std::size_t{40} << 20));
}

TEST(RocksTable, OpeningRemovesWhatAnEarlierTableLeft) {
  const testing::TempDir dir(testing::TempDir::Place::kMemory);
  for (int opened = 0; opened < 2; ++opened) {
    const auto table = OpenRocksTable(Options(), {.folder = dir / "t", .cache_bytes = 0});
    ASSERT_THAT(table, IsOk());
    std::vector<float> out(10);
    ASSERT_THAT((*table)->Pull(std::vector<std::int64_t>{1}, out), IsOk());
    EXPECT_EQ(out[0], 0.0F);
    AddOne(**table, 1000);
  }
}

TEST(RocksTable, AFolderThatCannotBeUsedIsADiskError) {
  const testing::TempDir dir;
  testing::WriteFile(dir / "file", "not a folder");
  EXPECT_THAT(OpenRocksTable(Options(), {.folder = dir / "file"}),
              StatusIs(Code::kDisk, HasSubstr("file")));
  const auto first = OpenRocksTable(Options(), {.folder = dir / "t"});
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(OpenRocksTable(Options(), {.folder = dir / "t"}),
              StatusIs(Code::kDisk, HasSubstr("LOCK")));
}

}  // namespace
}  // namespace paceline::ps
