#include "collective/native_engine.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "collective/engine_conformance_test_util.h"
#include "collective/native_group_test_util.h"
#include "collective/tree_sum.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::collective {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using ::testing::ValuesIn;

// How the ranks of a test are spread.
enum class Spread { kOneHost, kNetworkOnly, kTwoHosts, kInterleaved };

const char* SpreadName(Spread spread) {
  switch (spread) {
    case Spread::kOneHost: return "shared";
    case Spread::kNetworkOnly: return "network";
    case Spread::kTwoHosts: return "twohosts";
    case Spread::kInterleaved: return "interleaved";
  }
  return "";
}

std::vector<std::string> Machines(Spread spread, std::uint64_t world) {
  std::vector<std::string> machines;
  for (std::uint64_t rank = 0; rank < world; ++rank) {
    const bool second = spread == Spread::kTwoHosts ? rank >= (world + 1) / 2 : rank % 2 == 1;
    machines.emplace_back(second ? "b" : "a");
  }
  return spread == Spread::kOneHost || spread == Spread::kNetworkOnly ? std::vector<std::string>()
                                                                      : machines;
}

NativeGroupOptions Group(Spread spread, std::uint64_t world, std::uint64_t shards) {
  NativeGroupOptions options{.world = world, .machines = Machines(spread, world)};
  options.engine.layout = algo::ShardLayout::Even(shards, world);
  options.engine.shared_memory = spread != Spread::kNetworkOnly;
  options.engine.arena_bytes = std::size_t{16} << 20;
  options.engine.segment_bytes = 4096;  // many segments with little data
  return options;
}

// Runs one function on every rank at the same time.
void OnAll(std::vector<std::unique_ptr<NativeRank>>& ranks,
           const std::function<void(Engine&)>& body) {
  std::vector<std::jthread> threads;
  for (auto& rank : ranks) threads.emplace_back([&] { body(*rank->engine); });
}

class NativeFactory final : public EngineFactory {
 public:
  NativeFactory(Spread spread, std::uint64_t world) : spread_(spread), world_(world) {}
  EngineTraits traits() const override { return {.detects_size_mismatch = true}; }
  void RunRanks(const GroupOptions& options, const std::function<void(Engine&)>& body) override {
    NativeGroupOptions group =
        Group(spread_, world_, world_ * options.shards_per_rank + options.extra_shards);
    group.engine.timeout = options.timeout;
    auto ranks = MakeNativeGroup(group);
    OnAll(ranks, body);
  }

 private:
  Spread spread_;
  std::uint64_t world_;
};

EngineCase NativeCase(Spread spread) {
  return {.engine = "native", .make = [spread](std::uint64_t world) {
            return std::make_unique<NativeFactory>(spread, world);
          }};
}

INSTANTIATE_TEST_SUITE_P(Shared, EngineConformance,
                         ValuesIn(EngineCases(NativeCase(Spread::kOneHost))), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(Network, EngineConformance,
                         ValuesIn(EngineCases(NativeCase(Spread::kNetworkOnly))), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(TwoHosts, EngineConformance,
                         ValuesIn(EngineCases(NativeCase(Spread::kTwoHosts))), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(Interleaved, EngineConformance,
                         ValuesIn(EngineCases(NativeCase(Spread::kInterleaved))), EngineCaseName);

constexpr Spread kSpreads[] = {Spread::kOneHost, Spread::kNetworkOnly, Spread::kTwoHosts,
                               Spread::kInterleaved};

// A shard's contribution: rounding makes the order of additions visible.
float Contribution(std::uint64_t shard, std::size_t element) {
  CounterRng random(testing::TestSeed() + 1'000'000 * shard + element);
  return std::ldexp(random.Uniform() - 0.5F, static_cast<int>(random.Below(24)));
}

// What the tree over all shards gives, computed alone.
std::vector<float> Reference(std::uint64_t shards, std::size_t count) {
  std::vector<std::vector<float>> leaves(shards, std::vector<float>(count));
  std::vector<algo::TreeNode> known;
  std::vector<const float*> sources;
  for (std::uint64_t shard = 0; shard < shards; ++shard) {
    for (std::size_t i = 0; i < count; ++i) leaves[shard][i] = Contribution(shard, i);
    known.push_back({shard, shard + 1});
    sources.push_back(leaves[shard].data());
  }
  std::vector<float> total(count);
  float* const target[] = {total.data()};
  TreeSum({0, shards}, known).Run(sources, target, count);
  return total;
}

// The parts that a rank brings: sums over its own subtrees.
void FillParts(const Engine& engine, std::vector<std::span<float>>& parts) {
  const auto nodes = engine.layout().NodesOf(engine.rank());
  for (std::size_t part = 0; part < nodes.size(); ++part) {
    const std::size_t count = parts[part].size();
    std::vector<std::vector<float>> leaves;
    std::vector<algo::TreeNode> known;
    std::vector<const float*> sources;
    for (std::uint64_t shard = nodes[part].begin; shard < nodes[part].end; ++shard) {
      leaves.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i) leaves.back()[i] = Contribution(shard, i);
      known.push_back({shard, shard + 1});
    }
    for (const auto& leaf : leaves) sources.push_back(leaf.data());
    float* const target[] = {parts[part].data()};
    TreeSum(nodes[part], known).Run(sources, target, count);
  }
}

TEST(NativeEngine, TheBitsOfASumDependNeitherOnRanksNorOnHostsNorOnBuckets) {
  constexpr std::uint64_t kShards = 12;
  constexpr std::size_t kCount = 20'000;
  const std::vector<float> expected = Reference(kShards, kCount);
  for (const Spread spread : kSpreads) {
    for (std::uint64_t world = 1; world <= 5; ++world) {
      auto ranks = MakeNativeGroup(Group(spread, world, kShards));
      OnAll(ranks, [&](Engine& engine) {
        const std::size_t parts_count = engine.layout().NodesOf(engine.rank()).size();
        for (const std::size_t bucket : {kCount, std::size_t{6'001}, std::size_t{999}}) {
          std::vector<std::span<float>> parts;
          for (std::size_t i = 0; i < parts_count; ++i) parts.push_back(*engine.Allocate(kCount));
          FillParts(engine, parts);
          for (std::size_t at = 0; at < kCount; at += bucket) {
            std::vector<std::span<float>> pieces;
            for (const auto part : parts) {
              pieces.push_back(part.subspan(at, std::min(bucket, kCount - at)));
            }
            ASSERT_THAT(engine.AllReduce(pieces), IsOk());
          }
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), parts[0].begin()))
              << SpreadName(spread) << " world " << world << " bucket " << bucket;
        }
      });
    }
  }
}

TEST(NativeEngine, SendsExactlyThePredictedBytes) {
  for (const Spread spread : kSpreads) {
    for (const std::uint64_t world : {2U, 3U, 4U}) {
      for (const std::uint64_t shards : {world, 2 * world + 1}) {
        auto ranks = MakeNativeGroup(Group(spread, world, shards));
        OnAll(ranks, [&](Engine& engine) {
          for (const std::size_t count : {1U, 500U, 70'000U}) {
            std::vector<std::span<float>> parts;
            for (std::size_t i = 0; i < engine.layout().NodesOf(engine.rank()).size(); ++i) {
              parts.push_back(*engine.Allocate(count));
            }
            const Traffic before = engine.traffic();
            ASSERT_THAT(engine.AllReduce(parts), IsOk());
            const Traffic after = engine.traffic();
            const Traffic predicted = PredictAllReduceTraffic(engine, count);
            EXPECT_EQ(after.bytes_sent - before.bytes_sent, predicted.bytes_sent)
                << SpreadName(spread) << " " << world << "/" << shards << " " << count;
            EXPECT_EQ(after.frames_sent - before.frames_sent, predicted.frames_sent);
          }
        });
      }
    }
  }
}

TEST(NativeEngine, OneHostSendsNothingOverTheNetwork) {
  auto ranks = MakeNativeGroup(Group(Spread::kOneHost, 3, 3));
  OnAll(ranks, [&](Engine& engine) {
    const std::vector<std::span<float>> parts{*engine.Allocate(100'000)};
    const Traffic before = engine.traffic();
    ASSERT_THAT(engine.AllReduce(parts), IsOk());
    EXPECT_EQ(engine.traffic().bytes_sent, before.bytes_sent);
  });
}

// Every survivor waits in an operation that the dead rank never joins.
TEST(NativeEngine, EverySurvivorNamesTheRankThatDied) {
  for (const Spread spread : kSpreads) {
    auto ranks = MakeNativeGroup(Group(spread, 4, 4));
    std::vector<std::jthread> threads;
    for (const std::size_t rank : {0U, 1U, 3U}) {
      threads.emplace_back([&, rank] {
        std::vector<float> values(50'000);
        const std::vector<std::span<float>> parts{values};
        const Status status = ranks[rank]->engine->AllReduce(parts);
        EXPECT_THAT(status, StatusIs(Code::kPeerLost, HasSubstr("rank 2"))) << SpreadName(spread);
        EXPECT_THAT(ranks[rank]->engine->Barrier(), StatusIs(Code::kPeerLost, HasSubstr("rank 2")));
      });
    }
    ranks[2].reset();  // closes its connections without a word, as a killed process does
  }
}

TEST(NativeEngine, WhatOneRankWritesIntoCommonMemoryAllOfItsHostSee) {
  NativeGroupOptions options = Group(Spread::kOneHost, 3, 3);
  options.engine.common_bytes = 48 * sizeof(float);
  auto ranks = MakeNativeGroup(options);
  OnAll(ranks, [](Engine& engine) {
    const auto first = engine.AllocateCommon(17), second = engine.AllocateCommon(16);
    ASSERT_THAT(first.status(), IsOk());
    ASSERT_THAT(second.status(), IsOk());
    ASSERT_EQ(first->size(), 17U);
    ASSERT_EQ(second->size(), 16U);
    EXPECT_TRUE(engine.AllocateCommon(1)->empty()) << "it is used up";
    EXPECT_THAT(engine.Barrier(), IsOk());
    const std::size_t mine = engine.rank().value();
    (*first)[mine] = (*second)[mine] = static_cast<float>(mine + 1);
    EXPECT_THAT(engine.Barrier(), IsOk());
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ((*first)[rank], static_cast<float>(rank + 1));
      EXPECT_EQ((*second)[rank], static_cast<float>(rank + 1));
    }
    EXPECT_EQ((*first)[16], 0) << "not the same memory as the second";
  });
}

TEST(NativeEngine, RanksOfSeveralHostsHaveNoCommonMemory) {
  for (const Spread spread : {Spread::kNetworkOnly, Spread::kTwoHosts, Spread::kInterleaved}) {
    NativeGroupOptions options = Group(spread, 3, 3);
    options.engine.common_bytes = 64;
    auto ranks = MakeNativeGroup(options);
    OnAll(ranks, [&](Engine& engine) {
      const auto common = engine.AllocateCommon(16);
      ASSERT_THAT(common.status(), IsOk());
      EXPECT_TRUE(common->empty()) << SpreadName(spread);
    });
  }
}

TEST(NativeEngine, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  for (const Spread spread : {Spread::kOneHost, Spread::kNetworkOnly}) {
    NativeGroupOptions options = Group(spread, 3, 3);
    options.engine.timeout = std::chrono::milliseconds(100);
    auto ranks = MakeNativeGroup(options);
    std::vector<std::jthread> threads;
    for (const std::size_t rank : {0U, 2U}) {
      threads.emplace_back([&, rank] {
        const Status status = ranks[rank]->engine->Barrier();
        EXPECT_THAT(status, StatusIs(Code::kTimeout, HasSubstr("1"))) << SpreadName(spread);
      });
    }
  }
}

}  // namespace
}  // namespace paceline::collective
