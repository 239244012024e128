// What every table promises, on every table.
#include "ps/table.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "algo/table_partition.h"
#include "algo/table_row.h"
#include "base/rng.h"
#include "ps/rocks_table.h"
#include "ps/sparse_table.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::ps {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

enum class Kind {
  kMemory,
  kRocks,
  kRocksWithoutCache,  // a row a stripe: every call goes to the disk
};

struct StoredRow {
  std::uint32_t tick = 0;
  std::vector<float> values;
  std::vector<float> state;

  friend bool operator==(const StoredRow&, const StoredRow&) = default;
};

class TableTest : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Table> Open(const TableOptions& options) {
    auto table = OpenResult(options);
    EXPECT_THAT(table, IsOk());
    return table.ok() ? std::move(*table) : nullptr;
  }
  Result<std::unique_ptr<Table>> OpenResult(const TableOptions& options) {
    if (GetParam() == Kind::kMemory) return OpenSparseTable(options);
    const std::size_t cache = GetParam() == Kind::kRocks ? 1 << 20 : 0;
    return OpenRocksTable(options, {.folder = dir_ / std::to_string(opened_++),
                                    .cache_bytes = cache,
                                    .block_cache_bytes = 1 << 20});
  }

  static TableOptions Options() {
    return {.name = "words", .dim = 3, .seed = 7, .init_range = 0.5F, .stripes = 4};
  }

  static std::vector<float> Pull(Table& table, const std::vector<std::int64_t>& ids,
                                 std::size_t dim = 3) {
    std::vector<float> out(ids.size() * dim, std::numeric_limits<float>::quiet_NaN());
    EXPECT_THAT(table.Pull(ids, out), IsOk());
    return out;
  }
  // Makes rows, and leaves their values alone.
  static void Touch(Table& table, const std::vector<std::int64_t>& ids) {
    EXPECT_THAT(table.Add(ids, std::vector<float>(ids.size() * 3)), IsOk());
  }
  static std::uint64_t Evict(Table& table, std::uint32_t tick) {
    const auto evicted = table.EvictUntouchedSince(tick, [](const TableRow&) { return Status(); });
    EXPECT_THAT(evicted, IsOk());
    return evicted.ok() ? *evicted : 0;
  }
  static std::vector<float> Initial(const TableOptions& options, std::int64_t id) {
    std::vector<float> values(options.dim);
    algo::InitialRow({.seed = options.seed, .key = algo::TableKey(options.name)}, id,
                     options.init_range, values);
    return values;
  }
  template <typename Source>
  static std::map<std::int64_t, StoredRow> AllRows(Source& source) {
    std::map<std::int64_t, StoredRow> rows;
    EXPECT_THAT(source.ForEachRow([&](const TableRow& row) -> Status {
      StoredRow copy{.tick = row.tick,
                     .values = {row.values.begin(), row.values.end()},
                     .state = {row.state.begin(), row.state.end()}};
      EXPECT_TRUE(rows.emplace(row.id, copy).second) << "twice: " << row.id;
      return {};
    }),
                IsOk());
    return rows;
  }

 private:
  testing::TempDir dir_{testing::TempDir::Place::kMemory};
  int opened_ = 0;
};

std::vector<std::int64_t> Range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

TEST_P(TableTest, RowsStartAsAFunctionOfTheirId) {
  const auto table = Open(Options());
  ASSERT_NE(table, nullptr);
  const std::vector<std::int64_t> ids{5, -5, 0, std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min()};
  const std::vector<float> pulled = Pull(*table, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(std::vector(pulled.begin() + static_cast<std::ptrdiff_t>(3 * i),
                          pulled.begin() + static_cast<std::ptrdiff_t>(3 * i + 3)),
              Initial(Options(), ids[i]));
  }
  Touch(*table, ids);
  EXPECT_EQ(table->Size(), 5U);
  EXPECT_EQ(Pull(*table, ids), pulled);
}

TEST_P(TableTest, NoIdsAreFine) {
  const auto table = Open(Options());
  ASSERT_NE(table, nullptr);
  EXPECT_TRUE(Pull(*table, {}).empty());
  EXPECT_THAT(table->Push({}, {}, 1.0F), IsOk());
  EXPECT_THAT(table->Add({}, {}), IsOk());
  EXPECT_EQ(*table->Erase({}), 0U);
  EXPECT_TRUE(AllRows(*table).empty());
  EXPECT_EQ(table->Size(), 0U);
}

TEST_P(TableTest, PullingMakesNoRow) {
  const auto table = Open(Options());
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(Pull(*table, {8}), Initial(Options(), 8));
  EXPECT_EQ(table->Size(), 0U);
  ASSERT_THAT(table->Add(std::vector<std::int64_t>{8}, std::vector<float>{1, 2, 3}), IsOk());
  EXPECT_EQ(table->Size(), 1U);
  EXPECT_EQ(Pull(*table, {8})[2], Initial(Options(), 8)[2] + 3);
}

TEST_P(TableTest, PushAppliesTheOptimiserOfTheTable) {
  for (const RowOptimizerKind kind :
       {RowOptimizerKind::kSgd, RowOptimizerKind::kMomentum, RowOptimizerKind::kAdagrad,
        RowOptimizerKind::kAdam, RowOptimizerKind::kFtrl, RowOptimizerKind::kAdamW}) {
    TableOptions options = Options();
    options.optimizer.kind = kind;
    const auto table = Open(options);
    ASSERT_NE(table, nullptr);
    const std::vector<std::int64_t> ids{30, 10, 20};
    std::map<std::int64_t, StoredRow> expected;
    for (const std::int64_t id : ids) {
      expected[id] = {.values = Initial(options, id),
                      .state = std::vector<float>(StateFloats(kind, 3))};
    }
    for (int step = 0; step < 4; ++step) {
      std::vector<float> gradients;
      for (int i = 0; i < 9; ++i) gradients.push_back(0.25F * static_cast<float>(i - step));
      ASSERT_THAT(table->Push(ids, gradients, 0.1F), IsOk());
      for (std::size_t i = 0; i < 3; ++i) {
        StoredRow& row = expected[ids[i]];
        ApplyGradient(options.optimizer, 0.1F, std::span(gradients).subspan(3 * i, 3),
                      {.values = row.values, .state = row.state});
      }
    }
    EXPECT_EQ(AllRows(*table), expected) << RowOptimizerName(kind);
  }
}

TEST_P(TableTest, APushKeepsWhatAPullWouldHaveGiven) {
  TableOptions options = Options();
  options.admission = {.rule = AdmissionRule::kAfterTouches, .touches = 2};
  const auto table = Open(options);
  ASSERT_NE(table, nullptr);
  const std::vector<std::int64_t> ids{5, 3, 4}, known{3, 5};
  for (int touch = 0; touch < 2; ++touch) {
    ASSERT_THAT(table->Push(known, std::vector<float>(6, 1.0F), 0.5F), IsOk());
  }
  for (int push = 0; push < 3; ++push) {  // id 4: without a row, with a new one, with an old one
    const std::vector<float> pulled = Pull(*table, ids);
    std::vector<float> before(pulled.size());
    ASSERT_THAT(table->PushKeeping(ids, std::vector<float>(9, 1.0F), 0.5F, before), IsOk());
    EXPECT_EQ(before, pulled);
    EXPECT_NE(Pull(*table, ids), pulled);
  }
  std::vector<float> too_short(6);
  EXPECT_EQ(table->PushKeeping(ids, std::vector<float>(9), 0.5F, too_short).code(),
            Code::kInvalidArgument);
}

TEST_P(TableTest, AddLeavesTheStateAlone) {
  TableOptions options = Options();
  options.init_range = 0;
  options.optimizer.kind = RowOptimizerKind::kAdagrad;
  const auto table = Open(options);
  ASSERT_NE(table, nullptr);
  const std::vector<std::int64_t> ids{1, 2};
  ASSERT_THAT(table->Add(ids, std::vector<float>{1, 2, 3, 4, 5, 6}), IsOk());
  ASSERT_THAT(table->Add(ids, std::vector<float>{1, 1, 1, 1, 1, 1}), IsOk());
  EXPECT_EQ(Pull(*table, ids), (std::vector<float>{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(AllRows(*table).at(2).state, std::vector<float>(3));
}

// Values are small integers, so that every order of additions has the same exact sum.
TEST_P(TableTest, PushesOfManyThreadsToTheSameRowsAllCount) {
  TableOptions options = Options();
  options.init_range = 0;
  const auto table = Open(options);
  ASSERT_NE(table, nullptr);
  constexpr int kThreads = 4, kRounds = 100;
  const auto ids = Range(0, 50);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::vector<std::int64_t> mine = ids;
        std::rotate(mine.begin(), mine.begin() + 7 * thread, mine.end());
        std::vector<float> gradients, out(mine.size() * 3);
        for (const std::int64_t id : mine) {
          gradients.insert(gradients.end(), 3, static_cast<float>(-(id + thread)));
        }
        for (int round = 0; round < kRounds; ++round) {
          EXPECT_THAT(table->Push(mine, gradients, 1.0F), IsOk());
          EXPECT_THAT(table->Pull(mine, out), IsOk());
        }
      });
    }
  }
  const std::vector<float> sums = Pull(*table, ids);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto id = static_cast<int>(i / 3);
    EXPECT_EQ(sums[i], static_cast<float>(kRounds * (kThreads * id + 6))) << i;
  }
  EXPECT_EQ(table->Size(), 50U);
}

TEST_P(TableTest, NeitherOrderNorThreadsNorNumberOfServersShow) {
  const auto ids = Range(-500, 500);
  TableOptions options = Options();
  options.optimizer.kind = RowOptimizerKind::kAdam;
  const auto gradient = [](std::int64_t id) {
    return std::vector<float>(3, 0.01F * static_cast<float>(id));
  };
  const auto whole = Open(options);
  ASSERT_NE(whole, nullptr);
  for (const std::int64_t id : ids) {
    ASSERT_THAT(whole->Push(std::vector{id}, gradient(id), 0.1F), IsOk());
  }

  constexpr std::uint32_t kServers = 3;
  std::map<std::int64_t, StoredRow> parts;
  for (std::uint32_t server = 0; server < kServers; ++server) {
    options.stripes = std::size_t{1} << server;
    const auto part = Open(options);
    ASSERT_NE(part, nullptr);
    std::vector<std::int64_t> mine;
    for (const std::int64_t id : ids) {
      if (algo::ServerOf(id, kServers) == server) mine.push_back(id);
    }
    std::ranges::reverse(mine);
    const auto half = mine.begin() + static_cast<std::ptrdiff_t>(mine.size() / 2);
    const auto push = [&](auto begin, auto end) {
      std::vector<float> gradients;
      for (auto id = begin; id != end; ++id) {
        const auto one = gradient(*id);
        gradients.insert(gradients.end(), one.begin(), one.end());
      }
      EXPECT_THAT(part->Push({begin, end}, gradients, 0.1F), IsOk());
    };
    {
      const std::jthread first([&] { push(mine.begin(), half); });
      const std::jthread second([&] { push(half, mine.end()); });
    }
    parts.merge(AllRows(*part));
  }
  EXPECT_EQ(parts, AllRows(*whole));
}

TEST_P(TableTest, BehavesLikeAMap) {
  TableOptions options = Options();
  options.init_range = 0;
  options.dim = 1;
  const auto table = Open(options);
  ASSERT_NE(table, nullptr);
  std::map<std::int64_t, float> expected;
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 12, 0);
  for (int i = 0; i < 3000; ++i) {
    const std::vector<std::int64_t> id{rng.Below(200)};
    const std::uint32_t operation = rng.Below(8);
    if (operation == 0) {
      EXPECT_EQ(*table->Erase(id), expected.erase(id[0]));
    } else if (operation < 4) {
      const auto delta = static_cast<float>(i % 16);
      ASSERT_THAT(table->Add(id, std::vector<float>{delta}), IsOk());
      expected[id[0]] += delta;
    } else {
      const auto found = expected.find(id[0]);
      ASSERT_EQ(Pull(*table, id, 1)[0], found == expected.end() ? 0 : found->second) << id[0];
    }
    ASSERT_EQ(table->Size(), expected.size());
  }
  std::map<std::int64_t, float> all;
  for (const auto& [id, row] : AllRows(*table)) all[id] = row.values[0];
  EXPECT_EQ(all, expected);
}

TEST_P(TableTest, ARowIsStoredOnlyAfterEnoughPushes) {
  TableOptions options = Options();
  options.admission = {.rule = AdmissionRule::kAfterTouches, .touches = 3};
  const auto table = Open(options);
  ASSERT_NE(table, nullptr);
  const std::vector<std::int64_t> id{42};
  const std::vector<float> gradient{1, 1, 1};
  for (int touch = 1; touch < 3; ++touch) {
    ASSERT_THAT(table->Push(id, gradient, 1.0F), IsOk());
    for (int pull = 0; pull < 3; ++pull) EXPECT_EQ(Pull(*table, id), Initial(options, 42));
    EXPECT_EQ(table->Size(), 0U);
    EXPECT_EQ(table->Waiting(), 1U);
  }
  ASSERT_THAT(table->Push(id, gradient, 1.0F), IsOk());
  EXPECT_EQ(Pull(*table, id)[0], Initial(options, 42)[0] - 1.0F);
  EXPECT_EQ(table->Size(), 1U);
  EXPECT_EQ(table->Waiting(), 0U);
}

TEST_P(TableTest, ByChanceTheSameIdsAreStoredWhateverTouchesThem) {
  TableOptions options = Options();
  options.admission = {.rule = AdmissionRule::kByChance, .probability = 0.25};
  const auto added = Open(options), pushed = Open(options);
  ASSERT_TRUE(added != nullptr && pushed != nullptr);
  const auto ids = Range(0, 1000);
  Touch(*added, ids);
  Touch(*added, ids);
  ASSERT_THAT(pushed->Push(ids, std::vector<float>(3000), 0.1F), IsOk());
  EXPECT_NEAR(static_cast<double>(added->Size()), 250, 70);
  EXPECT_EQ(AllRows(*added), AllRows(*pushed));
}

TEST_P(TableTest, RowsThatNobodyTouchedAreEvictedAndStartAnew) {
  TableOptions options = Options();
  options.evict_after = 1;
  const auto table = Open(options);
  ASSERT_NE(table, nullptr);
  table->SetTick(5);
  ASSERT_THAT(table->Add(Range(0, 40), std::vector<float>(120, 1.0F)), IsOk());
  table->SetTick(6);
  Touch(*table, Range(0, 10));
  ASSERT_THAT(table->Push(Range(10, 20), std::vector<float>(30), 0.1F), IsOk());
  Pull(*table, Range(20, 30));
  EXPECT_EQ(Evict(*table, 5), 0U);
  std::map<std::int64_t, float> removed;
  EXPECT_EQ(*table->EvictUntouchedSince(6,
                                        [&](const TableRow& row) {
                                          removed[row.id] = row.values[0];
                                          return Status();
                                        }),
            20U);
  EXPECT_EQ(removed.size(), 20U);
  EXPECT_EQ(removed.at(30), Initial(options, 30)[0] + 1.0F);
  EXPECT_EQ(table->Size(), 20U);
  for (const auto& [id, row] : AllRows(*table)) {
    EXPECT_LT(id, 20);
    EXPECT_EQ(row.tick, 6U);
  }
  EXPECT_EQ(Pull(*table, {0})[0], Initial(options, 0)[0] + 1.0F);
  EXPECT_EQ(Pull(*table, {30}), Initial(options, 30));
}

TEST_P(TableTest, EvictionNeedsToRememberTouches) {
  const auto table = Open(Options());
  ASSERT_NE(table, nullptr);
  EXPECT_THAT(table->EvictUntouchedSince(1, [](const TableRow&) { return Status(); }),
              StatusIs(Code::kInvalidArgument, HasSubstr("'words'")));
}

TEST_P(TableTest, ARestoredTableGoesOnLikeTheOriginal) {
  TableOptions options = Options();
  options.optimizer.kind = RowOptimizerKind::kAdam;
  options.evict_after = 1;
  const auto first = Open(options);
  ASSERT_NE(first, nullptr);
  first->SetTick(9);
  const auto ids = Range(-50, 50);
  const std::vector<float> gradients(300, 0.5F);
  for (int step = 0; step < 3; ++step) ASSERT_THAT(first->Push(ids, gradients, 0.1F), IsOk());

  // Admission does not stand in the way of rows that were admitted.
  options.admission = {.rule = AdmissionRule::kAfterTouches, .touches = 2};
  const auto second = Open(options);
  ASSERT_NE(second, nullptr);
  Touch(*second, Range(0, 10));
  ASSERT_THAT(first->ForEachRow([&](const TableRow& row) { return second->Restore(row); }), IsOk());
  EXPECT_EQ(AllRows(*second), AllRows(*first));
  EXPECT_EQ(second->Size(), 100U);
  second->SetTick(9);
  for (Table* table : {first.get(), second.get()}) {
    ASSERT_THAT(table->Push(ids, gradients, 0.1F), IsOk());
  }
  EXPECT_EQ(AllRows(*second), AllRows(*first));
}

TEST_P(TableTest, FrozenRowsAreThoseOfThenWhateverHappens) {
  TableOptions options = Options();
  options.evict_after = 1;
  const auto table = Open(options);
  ASSERT_NE(table, nullptr);
  const auto ids = Range(0, 40);
  Touch(*table, ids);
  const std::vector<std::int64_t> erased{3, 17};
  ASSERT_EQ(*table->Erase(erased), 2U);  // two places are free
  const auto then = AllRows(*table);
  ASSERT_EQ(then.size(), 38U);

  auto frozen = table->Freeze();
  ASSERT_THAT(frozen, IsOk());
  table->SetTick(5);
  Touch(*table, Range(20, 30));
  const std::vector<float> ones(60, 1.0F);
  ASSERT_THAT(table->Push(Range(0, 20), ones, 0.5F), IsOk());  // 3 and 17 are made again
  ASSERT_THAT(table->Push(Range(0, 20), ones, 0.5F), IsOk());
  ASSERT_EQ(*table->Erase(Range(25, 35)), 10U);
  Touch(*table, Range(100, 120));  // some in places of erased rows
  const auto now = AllRows(*table);

  EXPECT_EQ(AllRows(**frozen), then);
  EXPECT_EQ(AllRows(*table), now);
  frozen->reset();
  EXPECT_THAT(table->Freeze(), IsOk());  // and may be frozen again
}

TEST_P(TableTest, IdsThatWaitForARowAreFrozenRestoredAndForgotten) {
  TableOptions options = Options();
  options.evict_after = 1;
  options.admission = {.rule = AdmissionRule::kAfterTouches, .touches = 2};
  const auto first = Open(options), second = Open(options);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  first->SetTick(3);
  Touch(*first, Range(0, 10));
  auto frozen = first->Freeze();
  ASSERT_THAT(frozen, IsOk());
  first->SetTick(4);
  Touch(*first, Range(0, 20));  // 0 to 9 get a row
  EXPECT_EQ(first->Size(), 10U);
  EXPECT_EQ((*frozen)->waiting().size(), 10U);
  for (const WaitingId& waiting : (*frozen)->waiting()) {
    EXPECT_EQ(waiting, (WaitingId{.id = waiting.id, .tick = 3, .touches = 1}));
    second->RestoreWaiting(waiting);
  }
  second->SetTick(4);
  Touch(*second, Range(0, 20));
  EXPECT_EQ(AllRows(*second), AllRows(*first));
  EXPECT_EQ(second->Waiting(), 10U);
  EXPECT_EQ(Evict(*second, 5), 10U);
  EXPECT_EQ(second->Waiting(), 0U);
}

TEST(TableOptions, RowsGoABitAfterTheyAreOldEnough) {
  for (const std::uint32_t after : {1U, 7U, 8U, 1000U}) {
    std::uint64_t last = 0;
    for (std::uint64_t round = 0; round < after; ++round) EXPECT_FALSE(EvictsWith(round, after));
    for (std::uint64_t round = after; round < 10'000; ++round) {
      if (!EvictsWith(round, after)) continue;
      EXPECT_LE(round - std::max<std::uint64_t>(last, after), std::max(1U, after / 8)) << after;
      last = round;
    }
    EXPECT_GT(last, 9'000U) << after;
  }
  EXPECT_FALSE(EvictsWith(1000, 0));
}

TEST_P(TableTest, AVisitorsErrorEndsTheVisit) {
  const auto table = Open(Options());
  ASSERT_NE(table, nullptr);
  Touch(*table, Range(0, 10));
  int visits = 0;
  EXPECT_THAT(table->ForEachRow([&](const TableRow&) {
    return ++visits < 3 ? Status() : Status::Error(Code::kAborted, "enough");
  }),
              StatusIs(Code::kAborted, HasSubstr("enough")));
  EXPECT_EQ(visits, 3);
}

TEST_P(TableTest, WrongLengthsAreRefusedAndChangeNothing) {
  const auto table = Open(Options());
  ASSERT_NE(table, nullptr);
  const std::vector<std::int64_t> ids{1, 2};
  std::vector<float> five(5);
  const auto refused = StatusIs(Code::kInvalidArgument, HasSubstr("5 floats for 2 rows of 3"));
  EXPECT_THAT(table->Pull(ids, five), refused);
  EXPECT_THAT(table->Push(ids, five, 0.1F), refused);
  EXPECT_THAT(table->Add(ids, five), refused);
  EXPECT_THAT(table->Restore({.id = 1, .values = five}),
              StatusIs(Code::kInvalidArgument, HasSubstr("a row of 5 values")));
  EXPECT_EQ(table->Size(), 0U);
}

TEST_P(TableTest, OptionsThatMakeNoSenseAreRefused) {
  const auto refused = [&](auto change, const std::string& why) {
    TableOptions options = Options();
    change(options);
    EXPECT_THAT(OpenResult(options), StatusIs(Code::kInvalidArgument, HasSubstr(why)));
  };
  refused([](auto& o) { o.dim = 0; }, "0 floats a row");
  refused([](auto& o) { o.dim = kMaxDim + 1; }, "4097 floats a row");
  refused([](auto& o) { o.init_range = -1; }, "initial range -1");
  refused([](auto& o) { o.stripes = 3; }, "3 stripes");
  refused([](auto& o) { o.stripes = 8192; }, "8192 stripes");
  refused([](auto& o) { o.admission.touches = 1'000'001; }, "1000001 touches");
  refused([](auto& o) { o.admission.touches = 0; }, "0 touches");
  refused([](auto& o) { o.admission.probability = 1.5; }, "1.5 is not a probability");
}

TEST_P(TableTest, TwoTablesOfOneRunStartDifferently) {
  const auto one = Open(Options());
  TableOptions options = Options();
  options.name = "users";
  const auto two = Open(options);
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_NE(Pull(*one, {1}), Pull(*two, {1}));
}

std::string KindName(const ::testing::TestParamInfo<Kind>& tested) {
  switch (tested.param) {
    case Kind::kMemory: return "Memory";
    case Kind::kRocks: return "Rocks";
    case Kind::kRocksWithoutCache: return "RocksWithoutCache";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Tables, TableTest,
                         ::testing::Values(Kind::kMemory, Kind::kRocks, Kind::kRocksWithoutCache),
                         KindName);

}  // namespace
}  // namespace paceline::ps
