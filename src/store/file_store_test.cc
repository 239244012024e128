#include "store/file_store.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "disk/faulty_file_system.h"
#include "store/state_log.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Optional;
using testing::StatusIs;

class FileStoreTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<StateStore>> Open() { return OpenStateStore("file:" + path_, options_); }
  // Through a store of its own.
  void Save(const std::vector<std::string>& states) {
    auto store = Open();
    ASSERT_THAT(store, IsOk());
    for (const std::string& state : states) ASSERT_THAT((*store)->Save(state), IsOk());
  }
  void ExpectLoads(const std::string& state) {
    auto store = Open();
    ASSERT_THAT(store, IsOk());
    const auto loaded = (*store)->Load();
    ASSERT_THAT(loaded, IsOk());
    EXPECT_THAT(*loaded, Optional(Eq(state)));
  }
  std::size_t Records() {
    const std::string content = testing::ReadFile(path_);
    const auto log = DecodeLog(std::as_bytes(std::span(content)), path_);
    EXPECT_THAT(log, IsOk());
    return log.ok() ? log->records : 0;
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "coordinator.log";
  StateStoreOptions options_{.id = "run", .owner = "pid 12 host a"};
};

TEST_F(FileStoreTest, EachSaveAddsOneRecordUntilTheLimitAndThenStartsAnew) {
  options_.compact_bytes = 12 + 3 * (8 + 100);
  auto store = Open();
  ASSERT_THAT(store, IsOk());
  std::vector<std::size_t> records;
  for (char c = 'a'; c <= 'g'; ++c) {
    ASSERT_THAT((*store)->Save(std::string(100, c)), IsOk());
    records.push_back(Records());
    EXPECT_LE(std::filesystem::file_size(path_), options_.compact_bytes);
    EXPECT_THAT(*(*store)->Load(), Optional(Eq(std::string(100, c))));
  }
  EXPECT_THAT(records, ElementsAre(1, 2, 3, 1, 2, 3, 1));
  // One state alone may be larger than the limit.
  const std::string large(1000, 'x');
  ASSERT_THAT((*store)->Save(large), IsOk());
  EXPECT_EQ(Records(), 1U);
  EXPECT_THAT(*(*store)->Load(), Optional(Eq(large)));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(FileStoreTest, ASaveIsSyncedBeforeItReturnsAndANewLogBeforeItsRename) {
  disk::PosixFileSystem posix;
  std::vector<std::string> seen;
  disk::FaultyFileSystem fs(posix, {}, [&](const std::string& operation) {
    seen.push_back(operation.substr(0, operation.find(dir_.path().string())) +
                   std::filesystem::path(operation).filename().string());
  });
  options_.file_system = &fs;
  auto store = Open();
  ASSERT_THAT(store, IsOk());
  seen.clear();
  ASSERT_THAT((*store)->Save("a"), IsOk());
  const std::string dir = dir_.path().filename();
  EXPECT_THAT(seen,
              ElementsAre("remove coordinator.log.tmp", "create coordinator.log.tmp",
                          "write coordinator.log.tmp", "fsync coordinator.log.tmp",
                          "close coordinator.log.tmp", "rename coordinator.log", "fsync " + dir));
  seen.clear();
  ASSERT_THAT((*store)->Save("b"), IsOk());
  ASSERT_THAT((*store)->Save("c"), IsOk());
  EXPECT_THAT(seen,
              ElementsAre("open coordinator.log", "write coordinator.log", "fsync coordinator.log",
                          "write coordinator.log", "fsync coordinator.log"));
  // What a dead owner wrote may not be durable; its successor makes it so before relying on it.
  store->reset();
  seen.clear();
  store = Open();
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(seen,
              ElementsAre("stat coordinator.log", "size coordinator.log", "read coordinator.log",
                          "open coordinator.log", "fsync coordinator.log", "fsync " + dir));
}

TEST_F(FileStoreTest, ACutOffTailIsMovedAsideAndTheStateBeforeCounts) {
  Save({"one", "two", "three"});
  const std::string whole = testing::ReadFile(path_);
  testing::WriteFile(path_, whole.substr(0, whole.size() - 2));
  ExpectLoads("two");
  const std::string tail = whole.substr(whole.size() - 8 - 5, 8 + 5 - 2);
  EXPECT_EQ(testing::ReadFile(path_ + ".broken"), tail);
  EXPECT_EQ(Records(), 1U);

  Save({"four"});
  ExpectLoads("four");
  const std::string again = testing::ReadFile(path_);
  testing::WriteFile(path_, again + "rest");
  ExpectLoads("four");
  EXPECT_EQ(testing::ReadFile(path_ + ".broken"), tail);
  EXPECT_EQ(testing::ReadFile(path_ + ".broken-2"), "rest");
}

TEST_F(FileStoreTest, DamageInTheMiddleIsRefusedAndNothingIsChanged) {
  Save({"one", "two", "three"});
  std::string damaged = testing::ReadFile(path_);
  damaged[12 + 8 + 3 + 8] ^= 1;
  testing::WriteFile(path_, damaged);
  EXPECT_THAT(Open(), StatusIs(Code::kBadCheckpoint,
                               AllOf(HasSubstr(path_ + ":23"), HasSubstr("behind it at 34"))));
  EXPECT_EQ(testing::ReadFile(path_), damaged);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".broken"));
}

TEST_F(FileStoreTest, AnotherFileIsRefusedAndNotChanged) {
  testing::WriteFile(path_, "precious");
  EXPECT_THAT(Open(), StatusIs(Code::kBadData, HasSubstr(path_ + " is not a state log")));
  EXPECT_EQ(testing::ReadFile(path_), "precious");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(Open(), StatusIs(Code::kBadData, HasSubstr("not a regular file")));
}

TEST_F(FileStoreTest, AFolderThatIsMissingIsADiskError) {
  EXPECT_THAT(OpenStateStore("file:" + (dir_ / "none/log"), options_),
              StatusIs(Code::kDisk, HasSubstr("none/log")));
}

TEST_F(FileStoreTest, TheLockOfTheRunIsAnother) {
  Save({"one"});
  EXPECT_TRUE(std::filesystem::exists(path_ + ".lock"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "LOCK"));
}

}  // namespace
}  // namespace paceline::store
