#include "disk/file_system.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>

#include "disk/checkpoint_test_util.h"
#include "disk/checkpoint_writer.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::disk {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

class PosixFileSystemTest : public ::testing::Test {
 protected:
  unsigned Mode(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }

  testing::TempDir dir_;
  PosixFileSystem fs_;
};

TEST_F(PosixFileSystemTest, WritesAreReadBackAndOnlyTheOwnerMayReadThem) {
  ASSERT_THAT(fs_.MakeDir(dir_ / "d"), IsOk());
  ASSERT_THAT(WriteText(fs_, dir_ / "d/f", "0123456789"), IsOk());
  EXPECT_EQ(Mode(dir_ / "d"), 0700U);
  EXPECT_EQ(Mode(dir_ / "d/f"), 0600U);
  EXPECT_THAT(fs_.SyncDir(dir_ / "d"), IsOk());
  EXPECT_EQ(*fs_.Size(dir_ / "d/f"), 10U);
  std::string part(4, ' ');
  EXPECT_EQ(*fs_.ReadAt(dir_ / "d/f", 3, std::as_writable_bytes(std::span(part))), 4U);
  EXPECT_EQ(part, "3456");
  EXPECT_EQ(*fs_.ReadAt(dir_ / "d/f", 8, std::as_writable_bytes(std::span(part))), 2U);
  EXPECT_EQ(ReadWhole(fs_, dir_ / "d/f", 10)->size(), 10U);
  EXPECT_THAT(ReadWhole(fs_, dir_ / "d/f", 9), StatusIs(Code::kBadData, HasSubstr("at most 9")));
}

TEST_F(PosixFileSystemTest, AppendingGoesOnAtTheEndOfAFileThatIsThere) {
  testing::WriteFile(dir_ / "f", "old");
  auto file = fs_.OpenForAppend(dir_ / "f", ReadBack::kSoon);
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT((*file)->Append(std::as_bytes(std::span("+new", 4))), IsOk());
  EXPECT_THAT((*file)->Close(), IsOk());
  EXPECT_EQ(testing::ReadFile(dir_ / "f"), "old+new");
  EXPECT_THAT(fs_.OpenForAppend(dir_ / "none", ReadBack::kSoon),
              StatusIs(Code::kNotFound, HasSubstr("none")));
  ASSERT_EQ(::symlink((dir_ / "f").c_str(), (dir_ / "link").c_str()), 0);
  EXPECT_THAT(fs_.OpenForAppend(dir_ / "link", ReadBack::kSoon),
              StatusIs(Code::kBadData, HasSubstr("link")));
  EXPECT_THAT(fs_.OpenForAppend(dir_.path(), ReadBack::kSoon),
              StatusIs(Code::kDisk, HasSubstr("directory")));
}

// Short and long pieces, that begin and end anywhere in a page.
TEST_F(PosixFileSystemTest, WhatNobodyReadsSoonIsAllThereInItsOrder) {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  testing::WriteFile(dir_ / "f", "old");
  std::string expected = "old";
  auto file = fs_.OpenForAppend(dir_ / "f", ReadBack::kNotSoon);
  ASSERT_THAT(file, IsOk());
  std::size_t number = 0;
  for (const std::size_t bytes :
       {kMegabyte, std::size_t{5}, kMegabyte - 1, 3 * kMegabyte + 4095, std::size_t{4096},
        2 * kMegabyte, std::size_t{1}, kMegabyte + 1}) {
    std::string piece(bytes, ' ');
    for (char& each : piece) each = static_cast<char>('!' + ++number * 7919 % 91);
    ASSERT_THAT((*file)->Append(std::as_bytes(std::span(piece))), IsOk());
    if (bytes % 2 == 0) {
      EXPECT_THAT((*file)->Sync(), IsOk());
    }
    expected += piece;
    EXPECT_EQ(*fs_.Size(dir_ / "f"), expected.size());
  }
  EXPECT_THAT((*file)->Close(), IsOk());
  EXPECT_TRUE(testing::ReadFile(dir_ / "f") == expected);
}

TEST_F(PosixFileSystemTest, CreateRefusesAnExistingPathEvenADanglingLink) {
  testing::WriteFile(dir_ / "f", "old");
  EXPECT_THAT(fs_.Create(dir_ / "f"), StatusIs(Code::kDisk, HasSubstr("File exists")));
  EXPECT_EQ(testing::ReadFile(dir_ / "f"), "old");
  ASSERT_EQ(::symlink((dir_ / "target").c_str(), (dir_ / "link").c_str()), 0);
  EXPECT_THAT(fs_.Create(dir_ / "link"), StatusIs(Code::kDisk, HasSubstr("File exists")));
  EXPECT_FALSE(*fs_.Exists(dir_ / "target"));
}

TEST_F(PosixFileSystemTest, ReadingWhatIsNoRegularFileSaysWhatItIs) {
  testing::WriteFile(dir_ / "f", "x");
  ASSERT_EQ(::symlink("f", (dir_ / "link").c_str()), 0);
  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(fs_.Size(dir_ / "link"), StatusIs(Code::kBadData, HasSubstr("symbolic link")));
  EXPECT_THAT(fs_.Size(dir_ / "fifo"), StatusIs(Code::kBadData, HasSubstr("regular")));
  EXPECT_THAT(fs_.Size(dir_.path()), StatusIs(Code::kBadData, HasSubstr("regular")));
  EXPECT_THAT(fs_.Size(dir_ / "none"), StatusIs(Code::kNotFound, HasSubstr("none")));
  EXPECT_THAT(fs_.Size(dir_ / "f/none"), StatusIs(Code::kNotFound, HasSubstr("none")));
  EXPECT_THAT(fs_.List(dir_ / "none"), StatusIs(Code::kNotFound, HasSubstr("none")));
}

TEST_F(PosixFileSystemTest, ListIsSortedAndALinkToADirectoryIsNone) {
  ASSERT_THAT(fs_.MakeDir(dir_ / "b"), IsOk());
  testing::WriteFile(dir_ / "c", "");
  ASSERT_EQ(::symlink("b", (dir_ / "a").c_str()), 0);
  EXPECT_THAT(Names(dir_.path()), ElementsAre("a", "b", "c"));
  auto entries = fs_.List(dir_.path());
  EXPECT_FALSE((*entries)[0].is_directory);
  EXPECT_TRUE((*entries)[1].is_directory);
}

TEST_F(PosixFileSystemTest, RemoveAllRemovesALinkAndNotWhatItPointsAt) {
  ASSERT_THAT(fs_.MakeDir(dir_ / "keep"), IsOk());
  testing::WriteFile(dir_ / "keep/f", "x");
  ASSERT_THAT(fs_.MakeDir(dir_ / "gone"), IsOk());
  ASSERT_EQ(::symlink("../keep", (dir_ / "gone/link").c_str()), 0);
  EXPECT_THAT(fs_.RemoveAll(dir_ / "gone"), IsOk());
  EXPECT_THAT(fs_.RemoveAll(dir_ / "gone"), IsOk());
  EXPECT_THAT(Names(dir_.path()), ElementsAre("keep"));
  EXPECT_EQ(testing::ReadFile(dir_ / "keep/f"), "x");
}

TEST_F(PosixFileSystemTest, MakeDirAcceptsADirectoryButNotAFile) {
  EXPECT_THAT(fs_.MakeDir(dir_.path()), IsOk());
  testing::WriteFile(dir_ / "f", "");
  EXPECT_THAT(fs_.MakeDir(dir_ / "f"), StatusIs(Code::kDisk, HasSubstr("mkdir")));
  EXPECT_THAT(fs_.MakeDir(dir_ / "a/b"), StatusIs(Code::kDisk, HasSubstr("No such file")));
}

TEST_F(PosixFileSystemTest, ErrorsNameOperationPathAndReason) {
  EXPECT_THAT(fs_.Rename(dir_ / "a", dir_ / "b"),
              StatusIs(Code::kDisk, AllOf(HasSubstr("rename " + (dir_ / "a")),
                                          HasSubstr("No such file or directory"))));
  EXPECT_THAT(fs_.SyncDir(dir_ / "a"), StatusIs(Code::kDisk, HasSubstr(dir_ / "a")));
}

TEST_F(PosixFileSystemTest, AFileBeyondTheSizeLimitIsADiskError) {
  const int status = RunInChild([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const Status written = WriteText(fs_, dir_ / "f", std::string(1000, 'x'));
    return written.code() == Code::kDisk &&
                   written.message().find("File too large") != std::string::npos
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(PosixFileSystemTest, ALongAppendBeyondTheSizeLimitLeavesTheBeginningAsItWas) {
  constexpr std::size_t kLimit = (std::size_t{3} << 19) + 100;
  std::string all(std::size_t{3} << 20, ' ');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>('!' + i * 7919 % 91);
  testing::WriteFile(dir_ / "f", "");
  const int status = RunInChild([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{kLimit, kLimit};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    auto file = fs_.OpenForAppend(dir_ / "f", ReadBack::kNotSoon);
    if (!file.ok()) return 3;
    const Status written = (*file)->Append(std::as_bytes(std::span(all)));
    return written.code() == Code::kDisk &&
                   written.message().find("File too large") != std::string::npos
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(testing::ReadFile(dir_ / "f") == all.substr(0, kLimit));
}

}  // namespace
}  // namespace paceline::disk
