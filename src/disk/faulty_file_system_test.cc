#include "disk/faulty_file_system.h"

#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include <gmock/gmock.h>

#include "disk/checkpoint_test_util.h"
#include "disk/checkpoint_writer.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::disk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(FaultPlan, ParsesEveryAction) {
  using Action = FaultPlan::Action;
  const auto parse = [](const char* text) {
    auto plan = ParseFaultPlan(text);
    EXPECT_THAT(plan, IsOk());
    return *plan;
  };
  EXPECT_EQ(parse("").action, Action::kNone);
  EXPECT_EQ(parse("kill-before=7").action, Action::kKillBefore);
  EXPECT_EQ(parse("kill-before=7").at, 7U);
  EXPECT_EQ(parse("kill-after=12").action, Action::kKillAfter);
  EXPECT_EQ(parse("kill-torn=1").action, Action::kKillTorn);
  EXPECT_EQ(parse("fail=7:ENOSPC").action, Action::kFail);
  EXPECT_EQ(parse("fail=7:ENOSPC").error, ENOSPC);
  EXPECT_EQ(parse("fail-from=7:EROFS").action, Action::kFailFrom);
  EXPECT_EQ(parse("short-write=3:EIO").action, Action::kShortWrite);
}

TEST(FaultPlan, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"7", "kill=7", "kill-before", "kill-before=", "kill-before=0",
                           "kill-before=-1", "kill-before=7:EIO", "fail=7", "fail=7:", "fail=7:EX",
                           "fail=x:EIO", "fail=99999999999999999999:EIO"}) {
    EXPECT_THAT(ParseFaultPlan(text), StatusIs(Code::kInvalidArgument, HasSubstr(text)));
  }
}

// Four operations: create, write, fsync, close.
Status WriteWith(const char* plan, const std::string& path, std::vector<std::string>* seen) {
  PosixFileSystem posix;
  FaultyFileSystem fs(posix, *ParseFaultPlan(plan), [&](const std::string& operation) {
    if (seen != nullptr) seen->push_back(operation.substr(0, operation.find(' ')));
  });
  return WriteText(fs, path, "12345678");
}

TEST(FaultyFileSystem, WithoutAPlanItOnlyCounts) {
  const testing::TempDir dir;
  std::vector<std::string> seen;
  EXPECT_THAT(WriteWith("", dir / "f", &seen), IsOk());
  EXPECT_THAT(seen, ElementsAre("create", "write", "fsync", "close"));
  EXPECT_EQ(testing::ReadFile(dir / "f"), "12345678");
}

TEST(FaultyFileSystem, FailsTheOperationItIsToldTo) {
  const testing::TempDir dir;
  EXPECT_THAT(WriteWith("fail=1:EIO", dir / "a", nullptr),
              StatusIs(Code::kDisk, HasSubstr("create " + (dir / "a") + ": Input/output error")));
  EXPECT_THAT(WriteWith("fail=2:ENOSPC", dir / "b", nullptr),
              StatusIs(Code::kDisk, HasSubstr("write " + (dir / "b") + ": No space left")));
  EXPECT_EQ(testing::ReadFile(dir / "b"), "");
  EXPECT_THAT(WriteWith("short-write=2:ENOSPC", dir / "c", nullptr),
              StatusIs(Code::kDisk, HasSubstr("No space left")));
  EXPECT_EQ(testing::ReadFile(dir / "c"), "1234");
  EXPECT_THAT(WriteWith("fail=5:EIO", dir / "d", nullptr), IsOk());
}

TEST(FaultyFileSystem, AppendingCountsLikeANewFile) {
  const testing::TempDir dir;
  testing::WriteFile(dir / "f", "old");
  PosixFileSystem posix;
  std::vector<std::string> seen;
  FaultyFileSystem fs(posix, *ParseFaultPlan("short-write=2:ENOSPC"),
                      [&](const std::string& operation) { seen.push_back(operation); });
  auto file = fs.OpenForAppend(dir / "f", ReadBack::kSoon);
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT((*file)->Append(std::as_bytes(std::span("1234", 4))),
              StatusIs(Code::kDisk, HasSubstr("No space left")));
  EXPECT_THAT(seen, ElementsAre("open " + (dir / "f"), "write " + (dir / "f")));
  EXPECT_EQ(testing::ReadFile(dir / "f"), "old12");
}

TEST(FaultyFileSystem, KillsTheProcessAtTheExactPoint) {
  const testing::TempDir dir;
  const auto killed = [&](const char* plan, const char* name) {
    const int status = RunInChild([&] {
      static_cast<void>(WriteWith(plan, dir / name, nullptr));
      return 0;
    });
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  };
  EXPECT_TRUE(killed("kill-before=2", "before"));
  EXPECT_EQ(testing::ReadFile(dir / "before"), "");
  EXPECT_TRUE(killed("kill-torn=2", "torn"));
  EXPECT_EQ(testing::ReadFile(dir / "torn"), "1234");
  EXPECT_TRUE(killed("kill-after=2", "after"));
  EXPECT_EQ(testing::ReadFile(dir / "after"), "12345678");
  EXPECT_FALSE(killed("kill-before=5", "never"));
}

}  // namespace
}  // namespace paceline::disk
