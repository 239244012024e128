#include "disk/run_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/subprocess.h"
#include "disk/checkpoint_test_util.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::disk {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(RunLock, SecondHolderIsRefusedWithNameOfTheFirst) {
  const testing::TempDir dir;
  FakeClock clock;
  clock.SetUnixSeconds(1'234'567);
  auto first = RunLock::Acquire(dir.path(), clock);
  ASSERT_THAT(first, IsOk());
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof(host) - 1), 0);
  // flock belongs to the open file, so a second one in this process stands for another process.
  EXPECT_THAT(RunLock::Acquire(dir.path()),
              StatusIs(Code::kAlreadyRunning,
                       AllOf(HasSubstr(dir.path().string()),
                             HasSubstr(fmt::format("pid {} host {}", ::getpid(), host)),
                             HasSubstr("start 1234567"))));
  EXPECT_THAT(testing::ReadFile(dir / "LOCK"), HasSubstr("start 1234567\n"));
}

TEST(RunLock, OneFileCanBeHeldToo) {
  const testing::TempDir dir;
  auto first = RunLock::AcquireFile(dir / "log", "pid 12 host a");
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(RunLock::AcquireFile(dir / "log", "pid 13 host a"),
              StatusIs(Code::kAlreadyRunning,
                       AllOf(HasSubstr(dir / "log"), HasSubstr("in use by pid 12 host a"))));
  EXPECT_THAT(RunLock::AcquireFile(dir / "other", "pid 13 host a"), IsOk());
  EXPECT_THAT(RunLock::Acquire(dir.path()), IsOk());
}

TEST(RunLock, IsFreeAgainAfterRelease) {
  const testing::TempDir dir;
  { ASSERT_THAT(RunLock::Acquire(dir.path()), IsOk()); }
  EXPECT_THAT(RunLock::Acquire(dir.path()), IsOk());
}

TEST(RunLock, TheLockOfAKilledProcessIsTakenOver) {
  const testing::TempDir dir;
  const int status = RunInChild([&] {
    auto lock = RunLock::Acquire(dir.path());
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::string before = testing::ReadFile(dir / "LOCK");
  EXPECT_THAT(RunLock::Acquire(dir.path()), IsOk());
  EXPECT_NE(testing::ReadFile(dir / "LOCK"), before);
  EXPECT_THAT(testing::ReadFile(dir / "LOCK"), HasSubstr(fmt::format("pid {} ", ::getpid())));
}

TEST(RunLock, AProgramStartedByTheHolderDoesNotKeepTheLock) {
  const testing::TempDir dir;
  auto lock = RunLock::Acquire(dir.path());
  ASSERT_THAT(lock, IsOk());
  auto child = Subprocess::Start({.argv = {"cat"}, .pipe_stdin = true});
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->WriteLine("exec happened"), IsOk());
  ASSERT_THAT(child->ReadLine(10s), IsOk());
  { const RunLock gone = std::move(lock).value(); }
  EXPECT_THAT(RunLock::Acquire(dir.path()), IsOk());
}

TEST(RunLock, AMissingDirectoryIsADiskErrorAndALinkIsNotFollowed) {
  const testing::TempDir dir;
  EXPECT_THAT(RunLock::Acquire(dir / "nowhere"), StatusIs(Code::kDisk, HasSubstr("nowhere/LOCK")));
  testing::WriteFile(dir / "precious", "content");
  ASSERT_EQ(::symlink((dir / "precious").c_str(), (dir / "LOCK").c_str()), 0);
  EXPECT_THAT(RunLock::Acquire(dir.path()), StatusIs(Code::kDisk, HasSubstr("LOCK")));
  EXPECT_EQ(testing::ReadFile(dir / "precious"), "content");
}

}  // namespace
}  // namespace paceline::disk
