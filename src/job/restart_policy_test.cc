#include "job/restart_policy.h"

#include <signal.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using namespace std::chrono_literals;

constexpr ExitState kKilled{.code = -1, .signal = SIGKILL};
constexpr ExitState kCrashed{.code = -1, .signal = SIGSEGV};

TEST(RestartPauseTest, WhoWasKilledStartsAtOnceWhoFailsYoungWaitsLongerEachTime) {
  RestartPause pause;
  EXPECT_EQ(pause.After(kKilled, false, 1ms), 0ms);
  EXPECT_EQ(pause.After(kCrashed, false, 1ms), 400ms);
  EXPECT_EQ(pause.After(kKilled, true, 1ms), 800ms);  // memory will run out again
  EXPECT_EQ(pause.After({.code = 75}, false, 1ms), 1600ms);
  for (int i = 0; i < 20; ++i) (void)pause.After(kCrashed, false, 1ms);
  EXPECT_EQ(pause.After(kCrashed, false, 1ms), 30s);
  EXPECT_EQ(pause.After(kCrashed, false, 6s), 0ms);  // it had worked
  EXPECT_EQ(pause.After(kCrashed, false, 1ms), 400ms);
}

TEST(IsHopelessTest, KnowsWhoNobodyCanHelp) {
  for (const int code : {2, 10, 11, 12, 13, 15, 16, 18, 127}) {
    EXPECT_TRUE(IsHopeless({.code = code})) << code;
  }
  for (const int code : {0, 1, 14, 17, 70, 75}) EXPECT_FALSE(IsHopeless({.code = code})) << code;
  EXPECT_FALSE(IsHopeless(kKilled));
}

TEST(OutOfMemoryWatchTest, EachKillExplainsOneDeath) {
  const testing::TempDir dir;
  std::filesystem::create_directories(dir / "proc/self");
  std::filesystem::create_directories(dir / "sys/fs/cgroup");
  testing::WriteFile(dir / "proc/self/cgroup", "0::/\n");
  testing::WriteFile(dir / "sys/fs/cgroup/memory.events", "oom_kill 4\n");
  OutOfMemoryWatch watch(dir.path().string());
  EXPECT_FALSE(watch.Explains(kKilled));
  testing::WriteFile(dir / "sys/fs/cgroup/memory.events", "oom_kill 5\n");
  EXPECT_FALSE(watch.Explains(kCrashed));
  EXPECT_TRUE(watch.Explains(kKilled));
  EXPECT_FALSE(watch.Explains(kKilled));
}

TEST(DescribeEndTest, SaysHow) {
  EXPECT_EQ(DescribeEnd({.code = 13}), "ended with exit code 13");
  EXPECT_EQ(DescribeEnd(kKilled), "was ended by SIGKILL");
  EXPECT_EQ(DescribeEnd(kKilled, true), "was ended by SIGKILL: out of memory");
}

}  // namespace
}  // namespace paceline::job
