// What is promised of the table in memory alone. table_test.cc has what every table promises.
#include "ps/sparse_table.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using testing::IsOk;

// The promise is 1.3 times id, values and state, at any number of rows from a million on. The worst
// number is just after the index grew, which it does by half: one of those measured is close to it.
TEST(SparseTable, AMillionRowsCostLittleMoreThanTheirPayload) {
  for (const RowOptimizerKind kind : {RowOptimizerKind::kSgd, RowOptimizerKind::kAdagrad}) {
    TableOptions options{.name = "words", .dim = 10, .evict_after = 1};
    options.optimizer.kind = kind;
    const auto table = OpenSparseTable(options);
    ASSERT_THAT(table, IsOk());
    const std::size_t payload = 8 + 4 * (10 + StateFloats(kind, 10));
    std::vector<std::int64_t> ids(50'000);
    const std::vector<float> zeros(ids.size() * 10);
    std::size_t measured = 0;
    for (std::int64_t begin = 0; begin < 1'500'000; begin += 50'000) {
      std::iota(ids.begin(), ids.end(), begin);
      ASSERT_THAT((*table)->Add(ids, zeros), IsOk());
      const std::uint64_t rows = (*table)->Size();
      ASSERT_EQ(rows, static_cast<std::uint64_t>(begin) + 50'000);
      if (rows < 1'000'000) continue;
      ++measured;
      EXPECT_LE(static_cast<double>((*table)->MemoryBytes()),
                1.3 * static_cast<double>(payload * rows))
          << rows << " rows, " << RowOptimizerName(kind);
    }
    EXPECT_EQ(measured, 11U);
  }
}

// An id that waits for a row is cheaper than the row; with eviction it does not wait for ever.
TEST(SparseTable, IdsThatComeOnceCostLittleAndAreForgotten) {
  TableOptions options{.name = "words", .dim = 10, .evict_after = 1};
  options.admission = {.rule = AdmissionRule::kAfterTouches, .touches = 2};
  const auto table = OpenSparseTable(options);
  ASSERT_THAT(table, IsOk());
  std::vector<std::int64_t> ids(100'000);
  const std::vector<float> zeros(ids.size() * 10);
  std::size_t most = 0;
  for (std::uint32_t round = 0; round < 10; ++round) {
    (*table)->SetTick(round);
    std::iota(ids.begin(), ids.end(), std::int64_t{round} * 100'000);
    ASSERT_THAT((*table)->Add(ids, zeros), IsOk());
    EXPECT_EQ((*table)->Size(), 0U);
    ASSERT_THAT((*table)->EvictUntouchedSince(round, [](const TableRow&) { return Status(); }),
                IsOk());
    EXPECT_EQ((*table)->Waiting(), 100'000U);
    most = std::max(most, (*table)->MemoryBytes());
  }
  EXPECT_LE(most, std::size_t{200'000} * 32 + 64 * 65'536);
}

}  // namespace
}  // namespace paceline::ps
