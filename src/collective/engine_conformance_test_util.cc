#include "collective/engine_conformance_test_util.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstring>
#include <latch>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "algo/shard_layout.h"
#include "base/clock.h"
#include "base/thread.h"
#include "collective/work.h"
#include "testing/status_matchers.h"

namespace paceline::collective {

namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

const GroupOptions kPlans[] = {
    {.shards_per_rank = 1}, {.shards_per_rank = 3}, {.shards_per_rank = 2, .extra_shards = 1}};

// Differs for every element and shard, and so small that sums of a dozen shards are exact.
float Value(std::uint64_t shard, std::size_t element) {
  return static_cast<float>(element * 13 + shard);
}

std::vector<std::size_t> Sizes(std::uint64_t world) {
  std::vector<std::size_t> sizes{0, 1, 15, 1000, 100'003};
  for (std::size_t size = world - 1; size <= world + 1; ++size) sizes.push_back(size);
  return sizes;
}

float ExpectedSum(const algo::TreeNode& node, std::size_t element) {
  float sum = 0;
  for (std::uint64_t shard = node.begin; shard < node.end; ++shard) sum += Value(shard, element);
  return sum;
}

enum class Memory { kOrdinary, kEngine };

// The parts of one rank.
struct Parts {
  Parts(Engine& engine, std::size_t size, Memory memory = Memory::kOrdinary) {
    const std::vector<algo::TreeNode> nodes = engine.layout().NodesOf(engine.rank());
    storage.resize(memory == Memory::kOrdinary ? nodes.size() : 0);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (memory == Memory::kOrdinary) {
        storage[i].resize(size);
        spans.emplace_back(storage[i]);
      } else {
        auto allocated = engine.Allocate(size);
        EXPECT_THAT(allocated, IsOk());
        if (!allocated.ok()) return;
        EXPECT_EQ(std::count(allocated->begin(), allocated->end(), 0.0F), std::ssize(*allocated));
        spans.push_back(*allocated);
      }
      Fill(nodes[i], spans[i]);
    }
  }
  static void Fill(const algo::TreeNode& node, std::span<float> part) {
    for (std::size_t e = 0; e < part.size(); ++e) part[e] = ExpectedSum(node, e);
  }

  std::vector<std::vector<float>> storage;
  std::vector<std::span<float>> spans;
};

// Elements of [slice) that are not the sum over all shards.
std::size_t CountWrong(const Engine& engine, std::span<const float> values, algo::Slice slice) {
  std::size_t wrong = 0;
  for (std::size_t e = slice.begin; e < slice.end; ++e) {
    if (values[e] != ExpectedSum({0, engine.layout().shards()}, e)) ++wrong;
  }
  return wrong;
}

void ExpectAllReduce(Engine& engine, std::size_t size, Memory memory = Memory::kOrdinary) {
  const Parts parts(engine, size, memory);
  ASSERT_THAT(engine.AllReduce(parts.spans), IsOk());
  EXPECT_EQ(CountWrong(engine, parts.spans[0], {0, size}), 0U)
      << "rank " << engine.rank().value() << ", " << size << " floats";
}

void ExpectReduceScatter(Engine& engine, std::size_t size, Memory memory = Memory::kOrdinary) {
  const Parts parts(engine, size, memory);
  ASSERT_THAT(engine.ReduceScatter(parts.spans), IsOk());
  const algo::Slice mine = algo::SliceOf(size, engine.world(), engine.rank().value());
  EXPECT_EQ(CountWrong(engine, parts.spans[0], mine), 0U)
      << "rank " << engine.rank().value() << ", " << size << " floats";
}

std::byte ByteOf(std::uint64_t rank, std::size_t position) {
  return static_cast<std::byte>((position * 7 + position / 251 + rank * 101 + 1) & 0xFF);
}

void ExpectAllGather(Engine& engine, std::size_t block) {
  std::vector<std::byte> blocks(block * engine.world());
  for (std::size_t i = 0; i < block; ++i) {
    blocks[block * engine.rank().value() + i] = ByteOf(engine.rank().value(), i);
  }
  ASSERT_THAT(engine.AllGather(blocks), IsOk());
  std::size_t wrong = 0;
  for (std::uint64_t rank = 0; rank < engine.world(); ++rank) {
    for (std::size_t i = 0; i < block; ++i) {
      if (blocks[rank * block + i] != ByteOf(rank, i)) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0U) << "rank " << engine.rank().value() << ", blocks of " << block << " bytes";
}

void ExpectBroadcast(Engine& engine, std::size_t size, Rank root) {
  std::vector<std::byte> bytes(size);
  if (engine.rank() == root) {
    for (std::size_t i = 0; i < size; ++i) bytes[i] = ByteOf(root.value(), i);
  }
  ASSERT_THAT(engine.Broadcast(bytes, root), IsOk());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < size; ++i) wrong += bytes[i] != ByteOf(root.value(), i) ? 1 : 0;
  EXPECT_EQ(wrong, 0U) << "rank " << engine.rank().value() << ", " << size << " bytes from "
                       << root.value();
}

}  // namespace

void PrintTo(const EngineCase& engine_case, std::ostream* out) { *out << engine_case.engine; }

std::ostream& operator<<(std::ostream& out, const EngineCase& engine_case) {
  return out << engine_case.engine << " with " << engine_case.world << " ranks";
}

std::vector<EngineCase> EngineCases(const EngineCase& base) {
  std::vector<EngineCase> cases(4, base);
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].world = i + 1;
  return cases;
}

std::string EngineCaseName(const ::testing::TestParamInfo<EngineCase>& info) {
  return info.param.world == 0 ? info.param.engine
                               : fmt::format("{}{}", info.param.engine, info.param.world);
}

void EngineConformance::SetUp() { factory_ = GetParam().make(GetParam().world); }

Result<std::vector<std::string>> BlobMeeting::Exchange(Rank rank, const std::string& mine) {
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  const MutexLock lock(mutex_);
  blobs_[rank.value()] = mine;
  if (--missing_ == 0) changed_.notify_all();
  while (missing_ > 0) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
      return Status::Error(Code::kTimeout, fmt::format("{} ranks are missing", missing_));
    }
  }
  return blobs_;
}

void RunInThreads(std::uint64_t world, const MakeRank& make,
                  const std::function<void(Engine&)>& body) {
  std::barrier all(static_cast<std::ptrdiff_t>(world));
  std::vector<std::jthread> threads;
  for (std::uint64_t r = 0; r < world; ++r) {
    threads.push_back(StartThread(fmt::format("rank{}", r), [&, r] {
      auto engine = make(Rank(r));
      EXPECT_THAT(engine, IsOk());
      all.arrive_and_wait();
      if (engine.ok()) body(**engine);
      all.arrive_and_wait();
    }));
  }
}

TEST_P(EngineConformance, KnowsItsPlace) {
  std::atomic<std::uint64_t> seen{0};
  RunRanks({.shards_per_rank = 2}, [&](Engine& engine) {
    EXPECT_EQ(engine.name(), GetParam().engine);
    EXPECT_LT(engine.rank().value(), engine.world());
    EXPECT_EQ(engine.layout().world(), engine.world());
    EXPECT_EQ(engine.layout().shards(), engine.world() * 2);
    if (GetParam().world != 0) {
      EXPECT_EQ(engine.world(), GetParam().world);
    }
    seen |= std::uint64_t{1} << engine.rank().value();
  });
  if (factory().traits().ranks_share_memory) {
    EXPECT_EQ(seen, (1U << GetParam().world) - 1);
  }
}

TEST_P(EngineConformance, AllReduceAddsEveryElementOfEveryShard) {
  for (GroupOptions plan : kPlans) {
    if (GetParam().world == 1) plan.extra_shards = 0;
    RunRanks(plan, [](Engine& engine) {
      for (const std::size_t size : Sizes(engine.world())) {
        ExpectAllReduce(engine, size);
        ExpectAllReduce(engine, size, Memory::kEngine);
      }
    });
  }
}

TEST_P(EngineConformance, AllReduceGivesTheSameBitsToAllRanks) {
  RunRanks({.shards_per_rank = 3}, [](Engine& engine) {
    constexpr std::size_t kSize = 10'007;
    Parts parts(engine, kSize);
    for (std::size_t i = 0; i < parts.spans.size(); ++i) {
      for (std::size_t e = 0; e < kSize; ++e) {
        // Thirds of very different size: every addition rounds.
        const auto spread = static_cast<float>(e % 17 + engine.rank().value() + i * 3 + 1);
        parts.spans[i][e] = spread * spread * spread / 3;
      }
    }
    ASSERT_THAT(engine.AllReduce(parts.spans), IsOk());
    const auto mine = std::as_bytes(parts.spans[0]);
    std::vector<std::byte> all(mine.size() * engine.world());
    const auto block = [&](std::uint64_t r) {
      return all.begin() + static_cast<std::ptrdiff_t>(mine.size() * r);
    };
    std::copy(mine.begin(), mine.end(), block(engine.rank().value()));
    ASSERT_THAT(engine.AllGather(all), IsOk());
    for (std::uint64_t r = 0; r < engine.world(); ++r) {
      EXPECT_TRUE(std::equal(mine.begin(), mine.end(), block(r)))
          << "ranks " << engine.rank().value() << " and " << r << " differ";
    }
  });
}

TEST_P(EngineConformance, ReduceScatterGivesEachRankItsSlice) {
  for (GroupOptions plan : kPlans) {
    if (GetParam().world == 1) plan.extra_shards = 0;
    RunRanks(plan, [](Engine& engine) {
      for (const std::size_t size : Sizes(engine.world())) {
        ExpectReduceScatter(engine, size);
        ExpectReduceScatter(engine, size, Memory::kEngine);
      }
    });
  }
}

TEST_P(EngineConformance, AllGatherFillsEveryBlock) {
  RunRanks({}, [](Engine& engine) {
    for (const std::size_t block : Sizes(engine.world())) ExpectAllGather(engine, block);
  });
}

TEST_P(EngineConformance, BroadcastStartsAtAnyRank) {
  RunRanks({}, [](Engine& engine) {
    for (const std::size_t size : Sizes(engine.world())) {
      for (std::uint64_t root = 0; root < engine.world(); ++root) {
        ExpectBroadcast(engine, size, Rank(root));
      }
    }
  });
}

TEST_P(EngineConformance, NobodyLeavesABarrierBeforeAllHaveComeToIt) {
  std::atomic<std::uint64_t> arrived{0};
  const bool shared = factory().traits().ranks_share_memory;
  RunRanks({}, [&](Engine& engine) {
    for (std::uint64_t round = 1; round <= 20; ++round) {
      ++arrived;
      ASSERT_THAT(engine.Barrier(), IsOk());
      if (shared) {
        EXPECT_GE(arrived, round * engine.world());
      }
    }
  });
}

TEST_P(EngineConformance, OperationsOfAllKindsFollowEachOther) {
  RunRanks({.shards_per_rank = 2}, [](Engine& engine) {
    for (std::size_t i = 0; i < 40; ++i) {
      const std::size_t size = i * i * 7 % 1009;
      ExpectAllReduce(engine, size);
      ExpectBroadcast(engine, size, Rank(i % engine.world()));
      ExpectReduceScatter(engine, size + 1);
      ExpectAllGather(engine, size);
      if (i % 8 == 0) {
        EXPECT_THAT(engine.Barrier(), IsOk());
      }
    }
  });
}

TEST_P(EngineConformance, AQueueRunsOperationsInTheirOrder) {
  RunRanks({.shards_per_rank = 2}, [](Engine& engine) {
    Queue queue(engine, SystemClock());
    std::vector<Parts> parts;
    std::vector<Work> works;
    for (std::size_t i = 0; i < 10; ++i) {
      parts.emplace_back(engine, 10'000 - i * 1'000 + i);
      works.push_back(queue.AllReduce(parts.back().spans));
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      ASSERT_THAT(works[i].Wait(20s), IsOk());
      EXPECT_TRUE(works[i].Done());
      EXPECT_EQ(CountWrong(engine, parts[i].spans[0], {0, parts[i].spans[0].size()}), 0U);
      EXPECT_LE(works[i].started(), works[i].finished());
      if (i > 0) {
        EXPECT_LE(works[i - 1].finished(), works[i].started());
      }
    }
  });
}

TEST_P(EngineConformance, AWaitThatEndsTooEarlyCanBeRepeated) {
  if (!factory().traits().ranks_share_memory) GTEST_SKIP() << "needs ranks that share memory";
  if (GetParam().world == 1) GTEST_SKIP() << "nobody to wait for";
  std::latch waited(static_cast<std::ptrdiff_t>(GetParam().world - 1));
  RunRanks({}, [&](Engine& engine) {
    Queue queue(engine, SystemClock());
    const Parts parts(engine, 1'000);
    if (engine.rank() == Rank(0)) waited.wait();
    const Work work = queue.AllReduce(parts.spans);
    if (engine.rank() != Rank(0)) {
      EXPECT_THAT(work.Wait(1ms), StatusIs(Code::kTimeout, _));
      EXPECT_FALSE(work.Done());
      waited.count_down();
    }
    EXPECT_THAT(work.Wait(20s), IsOk());
    EXPECT_EQ(CountWrong(engine, parts.spans[0], {0, 1'000}), 0U);
  });
}

TEST_P(EngineConformance, AbortEndsWhatIsInFlightAndThePeersNotice) {
  if (!factory().traits().aborts_in_flight) GTEST_SKIP() << "the library cannot cancel";
  if (GetParam().world == 1) GTEST_SKIP() << "nobody to wait for";
  std::latch aborted(static_cast<std::ptrdiff_t>(GetParam().world - 1));
  RunRanks({}, [&](Engine& engine) {
    const Parts parts(engine, 100'003);
    if (engine.rank() == Rank(0)) {
      aborted.wait();
      // What the others had brought before they gave up may be enough for one sum, not for two.
      Status status = engine.AllReduce(parts.spans);
      if (status.ok()) status = engine.AllReduce(parts.spans);
      EXPECT_THAT(status, StatusIs(Code::kPeerLost, HasSubstr("rank")));
      return;
    }
    Queue queue(engine, SystemClock());
    const Work first = queue.AllReduce(parts.spans);
    const Work second = queue.AllReduce(parts.spans);
    EXPECT_THAT(first.Wait(1ms), AnyOf(StatusIs(Code::kTimeout, _), StatusIs(Code::kPeerLost, _)));
    engine.Abort(Status::Error(Code::kFenced, "a test said so"));
    // Another rank may have been quicker and closed its connection.
    EXPECT_THAT(first.Wait(10s), AnyOf(StatusIs(Code::kFenced, HasSubstr("a test said so")),
                                       StatusIs(Code::kPeerLost, _)));
    EXPECT_THAT(second.Wait(10s), StatusIs(first.Wait(0s).code(), _));
    aborted.count_down();
  });
}

TEST_P(EngineConformance, ARankThatDoesNotComeEndsInATimeout) {
  if (!factory().traits().has_deadline) GTEST_SKIP() << "the library has no deadlines";
  if (GetParam().world == 1) GTEST_SKIP() << "nobody to wait for";
  std::latch timed_out(static_cast<std::ptrdiff_t>(GetParam().world - 1));
  RunRanks({.timeout = 300ms}, [&](Engine& engine) {
    if (engine.rank() == Rank(0)) {
      timed_out.wait();
      return;
    }
    const Status status = engine.Barrier();
    if (engine.world() == 2) {
      EXPECT_THAT(status, StatusIs(Code::kTimeout, _));
    } else {  // whose time ends first closes the connections
      EXPECT_THAT(status, AnyOf(StatusIs(Code::kTimeout, _), StatusIs(Code::kPeerLost, _)));
    }
    timed_out.count_down();
  });
}

TEST_P(EngineConformance, TheFirstCauseStays) {
  RunRanks({}, [](Engine& engine) {
    engine.Abort(Status::Error(Code::kFenced, "the first"));
    engine.Abort(Status::Error(Code::kAborted, "the second"));
    const Parts parts(engine, 0);
    std::vector<std::byte> bytes(engine.world());
    const Status cause = engine.failure();
    // Another rank's abort may have arrived before this one's own.
    EXPECT_THAT(cause, AnyOf(StatusIs(Code::kFenced, HasSubstr("the first")),
                             StatusIs(Code::kPeerLost, _)));
    const auto first = StatusIs(cause.code(), cause.message());
    EXPECT_THAT(engine.Barrier(), first);
    EXPECT_THAT(engine.AllReduce(parts.spans), first);
    EXPECT_THAT(engine.ReduceScatter(parts.spans), first);
    EXPECT_THAT(engine.AllGather(bytes), first);
    EXPECT_THAT(engine.Broadcast(bytes, Rank(0)), first);
    EXPECT_THAT(engine.Allocate(1), first);
  });
}

TEST_P(EngineConformance, WrongArgumentsAreRefused) {
  const auto refuses = [&](const std::function<Status(Engine&)>& call) {
    RunRanks({}, [&](Engine& engine) {
      const Status refused = call(engine);
      EXPECT_THAT(refused, StatusIs(Code::kInvalidArgument, _));
      EXPECT_EQ(engine.Barrier().message(), refused.message());  // the first failure is final
    });
  };
  refuses([](Engine& engine) { return engine.AllReduce({}); });
  refuses([](Engine& engine) { return engine.ReduceScatter({}); });
  refuses([](Engine& engine) { return engine.Broadcast({}, Rank(engine.world())); });
  if (GetParam().world == 1) return;  // any length is one block
  refuses([](Engine& engine) {
    std::vector<std::byte> bytes(engine.world() + 1);
    return engine.AllGather(bytes);
  });
}

TEST_P(EngineConformance, DifferentSizesAreAnError) {
  if (!factory().traits().detects_size_mismatch) GTEST_SKIP() << "the library does not notice";
  if (GetParam().world == 1) GTEST_SKIP() << "nobody to differ from";
  RunRanks({}, [](Engine& engine) {
    const Parts parts(engine, 1'000 + engine.rank().value());
    EXPECT_FALSE(engine.AllReduce(parts.spans).ok());
  });
}

}  // namespace paceline::collective
