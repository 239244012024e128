#include "ps/server_core.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>

#include "algo/table_partition.h"
#include "kernel/optimizer.h"
#include "ps/core_test_util.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(ServerCore, NothingHappensBeforeTheJobIsKnown) {
  TestServers servers(1, {});
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 2, 0);
  const MessageBytes message = MessageFor(RandomPush(spec, 0, 0, rng), spec, 1, 0);
  EXPECT_THAT(servers[0].Push(AsBytes(message)), StatusIs(Code::kUnavailable, HasSubstr("job")));
  EXPECT_THAT(servers[0].Pull({}, nullptr), StatusIs(Code::kUnavailable, HasSubstr("job")));
  EXPECT_THAT(servers[0].NextBatch(0), StatusIs(Code::kUnavailable, HasSubstr("job")));
  ASSERT_THAT(servers[0].Configure(spec), IsOk());
  EXPECT_THAT(servers[0].Push(AsBytes(message)), StatusIs(Code::kUnavailable, HasSubstr("dense")));
  JobSpec other = spec;
  other.tables[1].options.dim = 5;
  EXPECT_THAT(servers[0].Configure(other), StatusIs(Code::kMismatch, HasSubstr("'places'")));
  servers.Begin(spec);
  EXPECT_THAT(servers[0].Push(AsBytes(message)), IsOk());
  EXPECT_EQ(*servers[0].NextBatch(0), 1U);
  EXPECT_THAT(ServerCore::Open({.index = 2, .servers = 2}),
              StatusIs(Code::kInvalidArgument, HasSubstr("server 2 of 2")));
}

TEST(ServerCore, DenseStepsAreThoseOfALocalTrainer) {
  for (const RowOptimizerKind kind :
       {RowOptimizerKind::kSgd, RowOptimizerKind::kMomentum, RowOptimizerKind::kAdagrad,
        RowOptimizerKind::kAdam, RowOptimizerKind::kFtrl, RowOptimizerKind::kAdamW}) {
    JobSpec spec;
    spec.dense = {{.name = "w", .rows = {.rows = 30, .row_floats = 3}}};
    spec.dense_optimizer.kind = kind;
    TestServers servers(2, {});
    servers.Begin(spec);
    std::vector<float> expected = servers.Values();
    const std::size_t floats = expected.size();
    std::vector<float> state(StateFloats(kind, floats));
    CounterRng rng(testing::TestSeed(), Purpose::kTest, 3, 0);
    for (std::uint64_t batch = 0; batch < 4; ++batch) {
      const TestPush push = RandomPush(spec, 0, batch, rng);
      servers.Push(push);
      ApplyGradient(spec.dense_optimizer, push.learning_rate, push.dense, {expected, state});
    }
    EXPECT_EQ(servers.Values(), expected) << RowOptimizerName(kind);
  }
}

TEST(ServerCore, WeightDecayLeavesAloneWhatIsMarked) {
  for (const RowOptimizerKind kind : {RowOptimizerKind::kSgd, RowOptimizerKind::kAdamW}) {
    JobSpec spec;
    spec.dense = {{.name = "w", .rows = {.rows = 4, .row_floats = 3}},
                  {.name = "b", .rows = {.rows = 5}, .kind = DenseKind::kWithoutDecay}};
    spec.dense_optimizer = {.kind = kind, .weight_decay = 0.5F};
    TestServers servers(2, {});
    servers.Begin(spec);
    std::vector<float> expected = servers.Values();
    CounterRng rng(testing::TestSeed(), Purpose::kTest, 4, 0);
    const TestPush push = RandomPush(spec, 0, 0, rng);
    servers.Push(push);
    std::vector<float> w_state(StateFloats(kind, 12)), b_state(StateFloats(kind, 5));
    const std::span<float> values(expected);
    const std::span<const float> gradient(push.dense);
    ApplyGradient(spec.dense_optimizer, push.learning_rate, gradient.first(12),
                  {values.first(12), w_state});
    RowOptimizerOptions without = spec.dense_optimizer;
    without.weight_decay = 0;
    ApplyGradient(without, push.learning_rate, gradient.subspan(12, 5),
                  {values.subspan(12, 5), b_state});
    EXPECT_EQ(servers.Values(), expected) << RowOptimizerName(kind);
  }
}

TEST(ServerCore, TogetherGivesTheSameBitsOnAnyNumberOfServersInAnyOrder) {
  constexpr std::uint64_t kTrainers = 5, kBatches = 6;
  const JobSpec spec = SelectiveJob(Apply::kTogether, kTrainers);
  std::vector<float> expected;
  std::vector<std::uint64_t> expected_counts;
  for (const std::uint32_t count : {1U, 2U, 3U}) {
    TestServers servers(count, {});
    servers.Begin(spec);
    CounterRng order(testing::TestSeed(), Purpose::kTest, 4, count);
    for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
      std::vector<std::uint64_t> trainers{0, 1, 2, 3, 4};
      for (std::size_t i = kTrainers; i > 1; --i) {
        std::swap(trainers[i - 1], trainers[order.Below(static_cast<std::uint32_t>(i))]);
      }
      for (const std::uint64_t trainer : trainers) {
        EXPECT_EQ(servers[0].StatusNow().version, batch);
        CounterRng rng(testing::TestSeed(), Purpose::kTest, trainer, batch);
        servers.Push(RandomPush(spec, trainer, batch, rng));
      }
    }
    EXPECT_EQ(servers[0].StatusNow().version, kBatches);
    EXPECT_EQ(servers[0].StatusNow().waiting_bytes, 0U);
    if (expected.empty()) {
      expected = servers.Values();
      expected_counts = servers.TableCounts();
      EXPECT_GT(expected_counts[5], 0U);  // some were evicted
    }
    EXPECT_EQ(servers.Values(), expected) << count << " servers";
    EXPECT_EQ(servers.TableCounts(), expected_counts) << count << " servers";
  }
}

TEST(ServerCore, TogetherIsOneStepWithTheSum) {
  JobSpec spec = TestJob(Apply::kTogether, 2);
  spec.tables[0].options.optimizer = {};
  spec.dense_optimizer = {};
  TestServers servers(1, {});
  servers.Begin(spec);
  std::vector<float> expected = servers.Values();
  TestPush first{.lease = 0, .learning_rate = 0.5F, .rows = {{0, {{0, {1, 2, 3}}}}}};
  TestPush second{.lease = 1, .learning_rate = 9, .rows = {{0, {{0, {4, 4, 4}}}}}};
  first.dense.assign(61, 2);
  second.dense.assign(61, 1);
  servers.Push(second);
  EXPECT_EQ(servers.Values(), expected);
  servers.Push(first);
  for (std::size_t i = 0; i < 50; ++i) expected[i] -= 0.5F * 3;
  for (std::size_t i = 50; i < 56; ++i) expected[i] = 3;  // a statistic
  for (std::size_t i = 56; i < 61; ++i) expected[i] -= 1.0F * 3;
  for (std::size_t i = 0; i < 3; ++i) expected[61 + i] -= 0.5F * static_cast<float>(i + 5);
  EXPECT_EQ(servers.Values(), expected);
}

TEST(ServerCore, WhoHasFinishedHoldsNobodyUp) {
  const JobSpec spec = TestJob(Apply::kTogether, 2);
  TestServers servers(1, {});
  servers.Begin(spec);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 5, 0);
  servers.Push(RandomPush(spec, 0, 0, rng));
  servers.Push(RandomPush(spec, 0, 1, rng));
  EXPECT_GT(servers[0].StatusNow().waiting_bytes, 0U);
  TestPush last = RandomPush(spec, 1, 0, rng);
  last.last = true;
  servers.Push(last);
  EXPECT_EQ(servers[0].StatusNow().version, 2U);
  EXPECT_EQ(servers[0].StatusNow().waiting_bytes, 0U);
}

TEST(ServerCore, ADuplicateChangesNothing) {
  for (const Apply apply : {Apply::kTogether, Apply::kAtOnce}) {
    const JobSpec spec = TestJob(apply, 2);
    TestServers servers(1, {});
    servers.Begin(spec);
    CounterRng rng(testing::TestSeed(), Purpose::kTest, 6, 0);
    const MessageBytes message = MessageFor(RandomPush(spec, 0, 0, rng), spec, 1, 0);
    EXPECT_FALSE(servers[0].Push(AsBytes(message))->duplicate);
    const std::vector<float> before = servers.Values();
    EXPECT_TRUE(servers[0].Push(AsBytes(message))->duplicate);
    EXPECT_EQ(servers.Values(), before);
    EXPECT_EQ(servers[0].StatusNow().duplicates, 1U);
    EXPECT_EQ(servers[0].StatusNow().pushes, 1U);
  }
}

// A job with dense floats alone, whose pushes are long enough for the pool.
JobSpec LongJob(Apply apply, std::uint64_t trainers) {
  JobSpec spec{.fingerprint = "long", .apply = apply, .trainers = trainers};
  spec.dense.push_back({"dense", {512, 1024}});
  return spec;
}

TEST(ServerCore, MemoryOfAPushThatNobodyKeepsComesBack) {
  const JobSpec spec = LongJob(Apply::kAtOnce, 1);
  TestServers servers(1, {});
  servers.Begin(spec);
  const std::vector<float> dense(spec.DenseFloats(), 1);
  MessageBytes message = EncodePush({.lease = 0, .batch = 0, .dense = dense});
  const auto* const memory = message.data();
  EXPECT_THAT(servers[0].Push(message), IsOk());
  EXPECT_EQ(message.data(), memory);
}

TEST(ServerCore, AShortPushLeavesTheMemoryOfLongOnes) {
  const JobSpec spec = LongJob(Apply::kTogether, 2);
  TestServers servers(1, {});
  servers.Begin(spec);
  const std::vector<float> dense(spec.DenseFloats(), 1);
  const auto push = [&](std::uint64_t trainer, std::uint64_t batch) {
    MessageBytes message = EncodePush({.lease = trainer, .batch = batch, .dense = dense});
    const auto* const memory = message.data();
    EXPECT_THAT(servers[0].Push(message), IsOk());
    return std::pair(memory, std::move(message));
  };
  const auto [kept, nothing] = push(0, 0);
  EXPECT_TRUE(nothing.empty());
  push(1, 0);  // completes the round: the first is free
  EXPECT_THAT(servers[0].Push(AsBytes(EncodePush({.lease = 0, .batch = 1}))), IsOk());
  EXPECT_EQ(push(0, 2).second.data(), kept);
}

TEST(ServerCore, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const JobSpec spec = TestJob(Apply::kTogether, 2);
  TestServers servers(2, {});
  servers.Begin(spec);
  const std::vector<float> before = servers.Values();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::int64_t mine = 0, other = 0;
  while (algo::ServerOf(mine, 2) != 0) ++mine;
  while (algo::ServerOf(other, 2) != 1) ++other;
  const std::vector<std::int64_t> own{mine}, foreign{other}, twice{mine, mine};
  const std::vector<float> row{1, 2, 3}, two_rows{1, 2, 3, 4, 5, 6}, bad_row{1, nan, 3};
  std::vector<float> dense(servers[0].StatusNow().dense_floats, 1), bad_dense = dense;
  bad_dense.back() = std::numeric_limits<float>::infinity();
  const auto refused = [&](const Push& push, Code code, const char* why) {
    const MessageBytes message = EncodePush(push);
    EXPECT_THAT(servers[0].Push(AsBytes(message)), StatusIs(code, HasSubstr(why)));
  };
  refused({.lease = 2}, Code::kProtocol, "trainer 2");
  refused({.batch = 1}, Code::kProtocol, "the next is 0");
  refused({.deltas = true}, Code::kProtocol, "changes");
  refused({.learning_rate = nan}, Code::kInvalidArgument, "learning rate");
  refused({.tables = {{7, 3, own, row}}}, Code::kProtocol, "table 7");
  refused({.tables = {{1, 3, own, row}}}, Code::kProtocol, "'places'");
  refused({.tables = {{0, 3, foreign, row}}}, Code::kProtocol, "server 1's");
  refused({.tables = {{0, 3, twice, two_rows}}}, Code::kProtocol, "id comes twice");
  std::vector<std::int64_t> many;
  for (std::int64_t id = mine; many.size() < 1000; ++id) {
    if (algo::ServerOf(id, 2) == 0) many.push_back(id);
  }
  many.push_back(mine);
  const std::vector<float> many_rows(3 * many.size());
  refused({.tables = {{0, 3, many, many_rows}}}, Code::kProtocol, "id comes twice");
  refused({.tables = {{0, 3, own, row}, {0, 3, own, row}}}, Code::kProtocol, "table comes twice");
  refused({.tables = {{0, 3, own, bad_row}}}, Code::kInvalidArgument, "'words'");
  refused({.dense = std::span(dense).first(3)}, Code::kProtocol, "3 dense floats");
  refused({.dense = bad_dense}, Code::kInvalidArgument, "dense");
  EXPECT_EQ(servers.Values(), before);
  EXPECT_EQ(servers[0].StatusNow().pushes, 0U);

  const auto ahead = [&](std::uint64_t batch) {
    return servers[0].Push(AsBytes(EncodePush({.batch = batch, .dense = dense})));
  };
  // As many as a trainer sends again to a server that has lost them, before the others do.
  for (std::uint64_t batch = 0; batch <= kMostUnacknowledged; ++batch) {
    EXPECT_THAT(ahead(batch), IsOk());
  }
  EXPECT_THAT(ahead(kMostUnacknowledged + 1),
              StatusIs(Code::kProtocol, HasSubstr("others are at 0")));
}

TEST(ServerCore, APullWaitsForTheVersion) {
  const JobSpec spec = TestJob(Apply::kTogether, 1);
  TestServers servers(1, {});
  servers.Begin(spec);
  std::atomic<int> asked = 0;
  std::thread puller([&] {
    const auto answer = servers[0].Pull({.min_version = 1}, [&] {
      ++asked;
      asked.notify_all();
      return false;
    });
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->version, 1U);
    EXPECT_THAT(answer->pushes, ElementsAre(1));
  });
  asked.wait(0);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 7, 0);
  servers.Push(RandomPush(spec, 0, 0, rng));
  puller.join();
}

TEST(ServerCore, AWaitingPullIsInterrupted) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  TestServers servers(1, {});
  servers.Begin(spec);
  int asked = 0;
  EXPECT_THAT(servers[0].Pull({.min_version = 1}, [&] { return ++asked == 3; }),
              StatusIs(Code::kAborted, HasSubstr("called off")));
  std::atomic<bool> waits = false;
  std::thread puller([&] {
    EXPECT_THAT(servers[0].Pull({.min_version = 1},
                                [&] {
                                  waits = true;
                                  waits.notify_all();
                                  return false;
                                }),
                StatusIs(Code::kAborted, HasSubstr("stops")));
  });
  waits.wait(false);
  servers[0].Interrupt();
  puller.join();
  EXPECT_THAT(servers[0].Pull({.min_version = 1}, nullptr), StatusIs(Code::kAborted, ::testing::_));
}

TEST(ServerCore, WithoutAKnownNumberOfTrainersThereIsNoVersion) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 0);
  TestServers servers(1, {});
  servers.Begin(spec);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 8, 0);
  servers.Push(RandomPush(spec, 12345, 0, rng));
  EXPECT_EQ(servers[0].StatusNow().version, 0U);
  EXPECT_THAT(servers[0].Pull({.min_version = 1}, nullptr),
              StatusIs(Code::kInvalidArgument, HasSubstr("how many")));
}

TEST(ServerCore, VersionIsWhatEveryTrainerHasPushed) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 2);
  TestServers servers(1, {});
  servers.Begin(spec);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 9, 0);
  servers.Push(RandomPush(spec, 0, 0, rng));
  servers.Push(RandomPush(spec, 0, 1, rng));
  EXPECT_EQ(servers[0].StatusNow().version, 0U);
  servers.Push(RandomPush(spec, 1, 0, rng));
  EXPECT_EQ(servers[0].StatusNow().version, 1U);
  TestPush last = RandomPush(spec, 0, 2, rng);
  last.last = true;
  servers.Push(last);
  last = RandomPush(spec, 1, 1, rng);
  last.last = true;
  servers.Push(last);
  EXPECT_EQ(servers[0].StatusNow().version, 3U);  // all have finished: nobody waits for more
}

TEST(ServerCore, DeltasAreDividedAmongTrainers) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 4);
  TestServers servers(1, {});
  servers.Begin(spec);
  std::vector<float> expected = servers.Values();
  TestPush push{.deltas = true, .trainers = 4, .rows = {{0, {{0, {1, 2, 4}}}}}};
  push.dense.assign(61, 2);
  servers.Push(push);
  for (std::size_t i = 0; i < 61; ++i) expected[i] += 0.5F;
  expected[61] += 0.25F;
  expected[62] += 0.5F;
  expected[63] += 1;
  EXPECT_EQ(servers.Values(), expected);
}

// Also where trainers come and go: the push says how many there are.
TEST(ServerCore, AStatisticMovesByOneTrainersShare) {
  JobSpec spec = TestJob(Apply::kAtOnce, 0);
  spec.tables.clear();
  TestServers servers(1, {});
  servers.Begin(spec);
  const std::vector<float> before = servers.Values();
  TestPush push{.trainers = 4};
  push.dense.assign(61, 10);
  servers.Push(push);
  const std::vector<float> after = servers.Values();
  for (std::size_t i = 50; i < 56; ++i) EXPECT_EQ(after[i], before[i] + (10 - before[i]) / 4);
}

TEST(ServerCore, DelayIsCompensated) {
  JobSpec spec;
  spec.trainers = 2;
  spec.delay_compensation = 0.5F;
  spec.dense = {{.name = "w", .rows = {.rows = 1}}};
  TestServers servers(1, {});
  servers.Begin(spec);  // the value is 0
  std::vector<float> pulled(1);
  ASSERT_THAT(servers[0].Pull({.trainer = 1, .dense = pulled}, nullptr), IsOk());
  servers.Push({.lease = 0, .learning_rate = 1, .dense = {-3}});
  EXPECT_THAT(servers.Values(), ElementsAre(3));
  servers.Push({.lease = 1, .learning_rate = 1, .dense = {2}});
  EXPECT_THAT(servers.Values(), ElementsAre(3 - (2 + 0.5F * (3 - 0) * 2 * 2)));
}

TEST(ServerCore, PullChangedGivesWhatOthersChanged) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 2);
  TestServers servers(1, {});
  servers.Begin(spec);
  servers.Push({.lease = 0, .rows = {{0, {{1, {1, 1, 1}}}}}});
  EXPECT_TRUE(servers[0].PullChanged(1, 0, 0)->restarted);  // begins here
  servers.Push({.lease = 0, .batch = 1, .rows = {{0, {{8, {1, 1, 1}}, {5, {1, 1, 1}}}}}});
  servers.Push({.lease = 1, .batch = 0, .rows = {{1, {{5, {1, 1}}}}}});
  const auto changed = servers[0].PullChanged(1, 0, 1);
  ASSERT_THAT(changed, IsOk());
  EXPECT_FALSE(changed->restarted);
  EXPECT_THAT(changed->ids, ElementsAre(5, 8));
  const std::vector<float> values = servers.Values();
  EXPECT_TRUE(std::equal(changed->values.begin(), changed->values.begin() + 3,
                         values.begin() + 61 + 5 * 3));
  EXPECT_TRUE(servers[0].PullChanged(1, 0, 1)->restarted);  // the answer was lost
  const auto nothing = servers[0].PullChanged(1, 0, 2);
  ASSERT_THAT(nothing, IsOk());
  EXPECT_FALSE(nothing->restarted);
  EXPECT_TRUE(nothing->ids.empty());
  EXPECT_THAT(servers[0].PullChanged(1, 9, 0), StatusIs(Code::kProtocol, HasSubstr("table 9")));
}

TEST(ServerCore, StalenessCountsPushesInBetween) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 0);
  TestServers servers(1, {});
  servers.Begin(spec);
  for (std::uint64_t batch = 0; batch < 6; ++batch) {
    servers.Push({.batch = batch, .version = batch < 2 ? batch : 2, .dense = {}});
  }
  servers.Push({.batch = 6, .dense = {}});  // does not say
  EXPECT_THAT(servers[0].StatusNow().staleness.counts, ElementsAre(3, 1, 2));
}

// It died between its pushes to two servers; this one has its push and all others.
TEST(ServerCore, ATrainerThatRepeatsARoundGetsWhatItHadThen) {
  const JobSpec spec = SelectiveJob(Apply::kTogether, 2);
  TestServers servers(2, {});
  servers.Begin(spec);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 70, 0);
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < kTestIds; ++id) {
    if (algo::ServerOf(id, 2) == 0) ids.push_back(id);
  }
  const auto pull = [&](std::uint64_t round) {
    const std::size_t floats = ids.size() * spec.tables[1].options.dim;
    std::vector<float> values(floats + servers[0].StatusNow().dense_floats);
    const std::span<float> all(values);
    EXPECT_THAT(servers[0].Pull({.min_version = round,
                                 .rows = {{1, ids, all.first(floats)}},
                                 .dense = all.subspan(floats)},
                                nullptr),
                IsOk());
    return values;
  };
  for (std::uint64_t round = 0; round < 6; ++round) {
    const std::vector<float> before = pull(round);
    for (const std::uint64_t trainer : {0U, 1U}) {
      servers.Push(RandomPush(spec, trainer, round, rng));
    }
    EXPECT_EQ(pull(round), before);
    EXPECT_NE(pull(round + 1), before);
  }
  EXPECT_GT(servers.TableCounts()[5], 0U);  // some rows were evicted with a round
}

// Every round brings ids that never come back.
TEST(ServerCore, ATableWithEvictionStaysBounded) {
  for (const Apply apply : {Apply::kTogether, Apply::kAtOnce}) {
    constexpr std::uint64_t kRounds = 200, kIds = 10, kAfter = 16;
    JobSpec spec = TestJob(apply, 2);
    spec.tables[0].options.evict_after = kAfter;
    TestServers servers(2, {});
    servers.Begin(spec);
    std::int64_t next_id = 0;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      for (const std::uint64_t trainer : {0U, 1U}) {
        TestPush push{.lease = trainer, .batch = round, .dense = {}};
        for (std::uint64_t i = 0; i < kIds / 2; ++i) push.rows[0][next_id++] = {1, 2, 3};
        push.rows[0][-1] = {1, 2, 3};  // and one that always does
        servers.Push(push);
      }
      EXPECT_LE(servers.TableCounts()[0], kIds * (kAfter + kAfter / 8 + 1) + 1) << round;
    }
    const auto counts = servers.TableCounts();
    EXPECT_EQ(counts[0] + counts[2], kIds * kRounds + 1);
    std::vector<float> row(3);
    ASSERT_THAT(servers[algo::ServerOf(-1, 2)].Pull(
                    {.rows = {{0, std::vector<std::int64_t>{-1}, row}}}, nullptr),
                IsOk());
    EXPECT_LT(row[0], -1.0F);  // never evicted: all of its gradients counted
  }
}

}  // namespace
}  // namespace paceline::ps
