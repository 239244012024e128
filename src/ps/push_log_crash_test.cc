// A log whose process is killed at every one of its operations on files.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "disk/faulty_file_system.h"
#include "ps/push_log.h"
#include "testing/sanitized.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "wire/bytes.h"

namespace paceline::ps {
namespace {

using Action = disk::FaultPlan::Action;
using testing::IsOk;

constexpr std::uint64_t kRecords = 6;

// Appends records 1 to kRecords, and takes a snapshot after the third; counts those that are
// durable in `acked`, and where a snapshot begins in `snapshot`.
Status Work(disk::FileSystem& fs, const std::string& folder, std::uint64_t* acked,
            std::uint64_t* snapshot) {
  LogRecovery recovery;
  PACELINE_ASSIGN(auto log, PushLog::Open(
                                {.file_system = &fs,
                                 .folder = folder,
                                 .group = std::chrono::milliseconds(0),
                                 .segment_bytes = 150},
                                *snapshot, [](const LogRecord&) { return Status(); }, recovery));
  for (std::uint64_t i = 1; i <= kRecords; ++i) {
    const std::string text(30, static_cast<char>('a' + i));
    PACELINE_ASSIGN(const std::uint64_t number,
                    log->Append({.step = i, .payload = wire::AsBytes(text)}));
    PACELINE_TRY(log->AwaitDurable(number));
    *acked = i;
    if (i != 3) continue;
    PACELINE_ASSIGN(*snapshot, log->StartSegment());
    PACELINE_TRY(log->DropBefore(*snapshot));
  }
  return {};
}

class PushLogCrashTest : public ::testing::TestWithParam<Action> {
 protected:
  void SetUp() override {
    if (testing::kThreadSanitizer)
      GTEST_SKIP() << "skipped: the thread sanitizer allows no thread after fork";
    void* const memory = ::mmap(nullptr, 2 * sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    acked_ = static_cast<std::uint64_t*>(memory);
    snapshot_ = acked_ + 1;
  }
  void TearDown() override {
    if (acked_ != nullptr) ::munmap(acked_, 2 * sizeof(std::uint64_t));
  }

  // True when the child died by the plan's kill.
  bool WorkAndDie(std::uint64_t at) {
    *acked_ = 0;
    *snapshot_ = 1;
    const pid_t pid = ::fork();
    if (pid == 0) {
      disk::FaultyFileSystem fs(posix_, {GetParam(), at, 0});
      const Status status = Work(fs, dir_.path(), acked_, snapshot_);
      ::_exit(status.ok() ? 0 : 1);  // no destructors, no second report from gtest
    }
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  testing::TempDir dir_{testing::TempDir::Place::kMemory};
  disk::PosixFileSystem posix_;
  std::uint64_t* acked_ = nullptr;
  std::uint64_t* snapshot_ = nullptr;
};

TEST_P(PushLogCrashTest, WhatWasDurableIsThere) {
  bool died = true;
  for (std::uint64_t at = 1; died; ++at) {
    ASSERT_LT(at, 1000U);
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    died = WorkAndDie(at);
    std::vector<std::uint64_t> steps;
    LogRecovery recovery;
    const auto log = PushLog::Open(
        {.file_system = &posix_, .folder = dir_.path()}, *snapshot_,
        [&](const LogRecord& record) {
          steps.push_back(record.step);
          return Status();
        },
        recovery);
    ASSERT_THAT(log, IsOk()) << "killed at operation " << at;
    // Without gaps or repetitions up to at least the last that was told durable. A snapshot holds
    // the first three; whoever dies before it is known reads them again.
    const std::uint64_t first = steps.empty() ? *acked_ + 1 : steps.front();
    EXPECT_TRUE(first == 1 || (*snapshot_ > 1 && first == 4)) << first << ", operation " << at;
    for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], first + i);
    EXPECT_GE(first + steps.size(), *acked_ + 1) << "operation " << at;
    EXPECT_LE(first + steps.size(), *acked_ + 2) << "operation " << at;
  }
}

std::string NameOf(const ::testing::TestParamInfo<Action>& info) {
  return info.param == Action::kKillBefore  ? "before"
         : info.param == Action::kKillAfter ? "after"
                                            : "torn";
}
INSTANTIATE_TEST_SUITE_P(Killed, PushLogCrashTest,
                         ::testing::Values(Action::kKillBefore, Action::kKillAfter,
                                           Action::kKillTorn),
                         NameOf);

}  // namespace
}  // namespace paceline::ps
