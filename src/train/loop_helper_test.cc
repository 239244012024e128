#include "train/loop_helper.h"

#include <latch>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "train/shared_loop.h"

namespace paceline::train {
namespace {

using ::testing::Each;

// Cores that are idle when a test says so.
class CoresOfTest final : public collective::IdleCores {
 public:
  bool Await() override {
    idle_.wait(false);
    return !ended_.load();
  }
  bool Idle() const override { return idle_.load() && !ended_.load(); }
  std::vector<int> CpusOfOthers() const override { return {}; }
  void End() override {
    ended_.store(true);
    Become(true);
  }
  void Become(bool idle) {
    idle_.store(idle);
    idle_.notify_all();
  }

 private:
  std::atomic<bool> idle_{false}, ended_{false};
};

void AwaitReady(const LoopHelper& helper) {
  while (!helper.Ready()) std::this_thread::yield();
}

TEST(LoopHelper, DoesEveryPartOnce) {
  CoresOfTest cores;
  LoopHelper helper(cores);
  cores.Become(true);
  AwaitReady(helper);
  for (std::size_t parts : {0, 1, 2, 3, 100}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<int> done(parts);
      helper.Run(parts, [&](std::size_t i) { ++done[i]; });
      ASSERT_THAT(done, Each(1));
    }
  }
}

// Two parts that wait for each other end only if two threads do one each.
TEST(LoopHelper, WorksBesideTheThreadThatComputes) {
  CoresOfTest cores;
  LoopHelper helper(cores);
  cores.Become(true);
  AwaitReady(helper);
  std::latch both(2);
  helper.Run(2, [&](std::size_t) { both.arrive_and_wait(); });
  EXPECT_EQ(helper.parts_helped(), 1U);
}

TEST(LoopHelper, LeavesWhenItsCoreIsNeeded) {
  CoresOfTest cores;
  LoopHelper helper(cores);
  cores.Become(true);
  AwaitReady(helper);
  cores.Become(false);
  while (helper.Ready()) std::this_thread::yield();
  std::vector<int> done(100);
  helper.Run(done.size(), [&](std::size_t i) { ++done[i]; });
  EXPECT_THAT(done, Each(1));
  EXPECT_EQ(helper.parts_helped(), 0U);
}

TEST(LoopHelper, BelongsToOneThreadForAsLongAsItsScope) {
  CoresOfTest cores;
  LoopHelper helper(cores);
  EXPECT_EQ(LoopHelper::Current(), nullptr);
  {
    const LoopHelper::Scope scope(&helper);
    EXPECT_EQ(LoopHelper::Current(), &helper);
    std::jthread([] { EXPECT_EQ(LoopHelper::Current(), nullptr); }).join();
  }
  EXPECT_EQ(LoopHelper::Current(), nullptr);
}

TEST(SharedLoop, CoversTheRangeInMultiplesOfItsGrain) {
  CoresOfTest cores;
  LoopHelper helper(cores);
  cores.Become(true);
  AwaitReady(helper);
  for (LoopHelper* const with : {static_cast<LoopHelper*>(nullptr), &helper}) {
    const LoopHelper::Scope scope(with);
    for (std::size_t count : {0, 1, 15, 16, 17, 100}) {
      std::vector<int> done(count);
      SharedLoop({count, 16}, [&](std::size_t begin, std::size_t end) {
        EXPECT_EQ(begin % 16, 0U);
        for (std::size_t i = begin; i < end; ++i) ++done[i];
      });
      EXPECT_THAT(done, Each(1)) << count;
    }
  }
}

}  // namespace
}  // namespace paceline::train
