// A server that is killed at every one of its operations on files.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "disk/faulty_file_system.h"
#include "ps/core_test_util.h"
#include "ps/snapshot_writer.h"
#include "testing/sanitized.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::ps {
namespace {

using Action = disk::FaultPlan::Action;
using testing::IsOk;

constexpr std::uint64_t kPushes = 5;

MessageBytes PushBytes(const JobSpec& spec, std::uint64_t batch) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 70, batch);
  return MessageFor(RandomPush(spec, 0, batch, rng), spec, 1, 0);
}

// Pushes one after the other, with snapshots in between; counts those that are durable.
Status Work(disk::FileSystem& fs, const std::string& folder, const JobSpec& spec,
            std::uint64_t* acked) {
  PACELINE_ASSIGN(
      auto core, ServerCore::Open(
                     {.file_system = &fs, .folder = folder, .wal = Wal::kAlways, .load_from = {}}));
  ServerCore& raw = *core;
  TestServers servers(std::move(core));
  PACELINE_TRY(servers.TryBegin(spec));
  for (std::uint64_t batch = 0; batch < kPushes; ++batch) {
    const MessageBytes message = PushBytes(spec, batch);
    PACELINE_ASSIGN(const auto pushed, raw.Push(AsBytes(message)));
    PACELINE_TRY(AwaitDurable(raw, pushed.record));
    *acked = batch + 1;
    if (batch % 2 == 1) PACELINE_TRY(raw.Snapshot());
  }
  return {};
}

class ServerCoreCrashTest : public ::testing::TestWithParam<Action> {
 protected:
  void SetUp() override {
    if (testing::kThreadSanitizer) {
      GTEST_SKIP() << "skipped: the thread sanitizer allows no thread after fork";
    }
    void* const memory = ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    acked_ = static_cast<std::uint64_t*>(memory);
  }
  void TearDown() override {
    if (acked_ != nullptr) ::munmap(acked_, sizeof(std::uint64_t));
  }

  // True when the child died by the plan's kill.
  bool WorkAndDie(std::uint64_t at) {
    *acked_ = 0;
    const pid_t pid = ::fork();
    if (pid == 0) {
      disk::FaultyFileSystem fs(posix_, {GetParam(), at, 0});
      const Status status = Work(fs, dir_.path(), spec_, acked_);
      ::_exit(status.ok() ? 0 : 1);  // no destructors, no second report from gtest
    }
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  const JobSpec spec_ = TestJob(Apply::kAtOnce, 1);
  testing::TempDir dir_{testing::TempDir::Place::kMemory};
  disk::PosixFileSystem posix_;
  std::uint64_t* acked_ = nullptr;
};

TEST_P(ServerCoreCrashTest, WhatWasAcknowledgedIsThere) {
  std::vector<std::vector<float>> expected;  // [i]: after i pushes
  TestServers uninterrupted(1, {});
  uninterrupted.Begin(spec_);
  expected.push_back(uninterrupted.Values());
  for (std::uint64_t batch = 0; batch < kPushes; ++batch) {
    ASSERT_THAT(uninterrupted[0].Push(AsBytes(PushBytes(spec_, batch))), IsOk());
    expected.push_back(uninterrupted.Values());
  }
  bool died = true;
  for (std::uint64_t at = 1; died; ++at) {
    ASSERT_LT(at, 1000U);
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    died = WorkAndDie(at);
    TestServers servers(1, {.file_system = &posix_, .folder = dir_.path(), .load_from = {}});
    ASSERT_EQ(servers.size(), 1U) << "killed at operation " << at;
    servers.Begin(spec_);
    const std::uint64_t pushes = servers[0].StatusNow().pushes;
    ASSERT_GE(pushes, *acked_) << "operation " << at;
    ASSERT_LE(pushes, *acked_ + 1) << "operation " << at;
    EXPECT_EQ(servers.Values(), expected[pushes]) << "operation " << at;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename();
      EXPECT_FALSE(name.starts_with("snapshot-") && name.ends_with(".tmp")) << name;
    }
  }
}

// At every moment the one before would do.
TEST_P(ServerCoreCrashTest, TheNewestSnapshotMayBeDamagedWhenThereAreTwo) {
  bool died = true;
  std::uint64_t tried = 0;
  for (std::uint64_t at = 1; died; ++at) {
    ASSERT_LT(at, 1000U);
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    died = WorkAndDie(at);
    const auto snapshots = ListSnapshots(posix_, dir_.path());
    ASSERT_THAT(snapshots, IsOk());
    if (snapshots->size() < 2) continue;
    ++tried;
    const std::string path = SnapshotPath(dir_.path(), snapshots->back());
    testing::WriteFile(path, testing::ReadFile(path).substr(0, 100));
    TestServers servers(1, {.file_system = &posix_, .folder = dir_.path(), .load_from = {}});
    ASSERT_EQ(servers.size(), 1U) << "killed at operation " << at;
    EXPECT_EQ(servers[0].recovery().damaged.size(), 1U);
    ASSERT_GE(servers[0].StatusNow().pushes, *acked_) << "operation " << at;
  }
  EXPECT_GT(tried, 0U);
}

std::string NameOfCrash(const ::testing::TestParamInfo<Action>& info) {
  return info.param == Action::kKillBefore  ? "before"
         : info.param == Action::kKillAfter ? "after"
                                            : "torn";
}
INSTANTIATE_TEST_SUITE_P(Killed, ServerCoreCrashTest,
                         ::testing::Values(Action::kKillBefore, Action::kKillAfter,
                                           Action::kKillTorn),
                         NameOfCrash);

}  // namespace
}  // namespace paceline::ps
