#include "disk/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "disk/checkpoint_test_util.h"
#include "disk/faulty_file_system.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::disk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

class CheckpointTest : public ::testing::Test {
 protected:
  testing::TempDir dir_;
  PosixFileSystem fs_;
  const std::string root_ = dir_ / "ckpt";
};

TEST_F(CheckpointTest, WhatIsSavedIsLoaded) {
  auto saved = SaveSample(fs_, root_, 1);
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(*saved, Generation(1));
  auto loaded = Load(fs_, root_);
  ASSERT_THAT(loaded, IsOk());
  ExpectWholeSample(*loaded);
  EXPECT_THAT(loaded->warnings, IsEmpty());
  EXPECT_EQ(loaded->Find("model.safetensors", "none"), std::nullopt);
  EXPECT_EQ(loaded->Find("none", "weight"), std::nullopt);
  EXPECT_EQ(testing::ReadFile(root_ + "/LATEST"), "gen-0000000000000001\n");
}

TEST_F(CheckpointTest, ACheckpointWithoutFilesIsACheckpoint) {
  CheckpointStore store(fs_, root_ + "/", {.cluster_id = kTestCluster});
  ASSERT_THAT(store.Save({}, {}), IsOk());
  auto loaded = store.LoadNewest();
  ASSERT_THAT(loaded, IsOk());
  EXPECT_THAT(loaded->files, IsEmpty());
}

TEST_F(CheckpointTest, NothingSavedIsNotFound) {
  EXPECT_THAT(Load(fs_, root_), StatusIs(Code::kNotFound, HasSubstr(root_)));
  ASSERT_THAT(fs_.MakeDir(root_), IsOk());
  EXPECT_THAT(Load(fs_, root_), StatusIs(Code::kNotFound, HasSubstr(root_)));
}

TEST_F(CheckpointTest, TheBestIsKeptBesideTheNewest) {
  CheckpointStore store(fs_, root_, {.cluster_id = kTestCluster});
  for (std::uint64_t n = 1; n <= 5; ++n) {
    ASSERT_THAT(SaveSample(fs_, root_, n, 2), IsOk());
    if (n == 2) {
      ASSERT_THAT(store.MarkBest(Generation(2)), IsOk());
    }
  }
  EXPECT_EQ(testing::ReadFile(root_ + "/BEST"), "gen-0000000000000002\n");
  EXPECT_THAT(Names(root_), ElementsAre("BEST", "LATEST", "gen-0000000000000002",
                                        "gen-0000000000000004", "gen-0000000000000005"));
  // Once there is a better one it is as old as it is.
  ASSERT_THAT(store.MarkBest(Generation(5)), IsOk());
  ASSERT_THAT(SaveSample(fs_, root_, 6, 2), IsOk());
  EXPECT_THAT(Names(root_),
              ElementsAre("BEST", "LATEST", "gen-0000000000000005", "gen-0000000000000006"));
}

TEST_F(CheckpointTest, ABestThatNamesNothingKeepsNothing) {
  for (std::uint64_t n = 1; n <= 2; ++n) ASSERT_THAT(SaveSample(fs_, root_, n, 2), IsOk());
  for (const char* text : {"", "gen-0000000000000099\n", "../gen-0000000000000001", "\xff"}) {
    testing::WriteFile(root_ + "/BEST", text);
    ASSERT_THAT(SaveSample(fs_, root_, 3, 2), IsOk());
    EXPECT_THAT(Load(fs_, root_), IsOk());
    EXPECT_EQ(Names(root_).size(), 4U) << text;
  }
}

TEST_F(CheckpointTest, TheBestIsLoadedAsLongAsItIsWhole) {
  CheckpointStore reader(fs_, root_, {.access = Access::kReadOnly});
  EXPECT_THAT(reader.LoadBest(), StatusIs(Code::kNotFound, HasSubstr(root_)));
  for (std::uint64_t n = 1; n <= 3; ++n) ASSERT_THAT(SaveSample(fs_, root_, n), IsOk());
  EXPECT_THAT(reader.LoadBest(), StatusIs(Code::kNotFound, HasSubstr("no best checkpoint")));
  CheckpointStore store(fs_, root_, {.cluster_id = kTestCluster});
  ASSERT_THAT(store.MarkBest(Generation(2)), IsOk());
  auto best = reader.LoadBest();
  ASSERT_THAT(best, IsOk());
  EXPECT_EQ(best->meta.generation, Generation(2));
  ExpectWholeSample(*best);
  const auto before = Names(root_);
  testing::WriteFile(root_ + "/gen-0000000000000002/MANIFEST.json", "{}");
  EXPECT_THAT(reader.LoadBest(), StatusIs(Code::kBadCheckpoint, HasSubstr("MANIFEST.json")));
  EXPECT_THAT(store.LoadBest(), StatusIs(Code::kBadCheckpoint, HasSubstr("damaged")));
  EXPECT_EQ(Names(root_), before);
  for (const char* text : {"", "gen-0000000000000099\n", "../gen-0000000000000001"}) {
    testing::WriteFile(root_ + "/BEST", text);
    EXPECT_THAT(reader.LoadBest(), StatusIs(Code::kBadCheckpoint, HasSubstr("not there"))) << text;
  }
}

TEST_F(CheckpointTest, KeepsTheNewestAndNeverFewerThanTwo) {
  for (std::uint64_t n = 1; n <= 5; ++n) ASSERT_THAT(SaveSample(fs_, root_, n), IsOk());
  EXPECT_THAT(Names(root_), ElementsAre("LATEST", "gen-0000000000000003", "gen-0000000000000004",
                                        "gen-0000000000000005"));
  ASSERT_THAT(SaveSample(fs_, root_, 6, /*keep=*/0), IsOk());
  EXPECT_THAT(Names(root_), ElementsAre("LATEST", "gen-0000000000000005", "gen-0000000000000006"));
}

TEST_F(CheckpointTest, NumbersGrowPastBrokenGenerations) {
  ASSERT_THAT(SaveSample(fs_, root_, 1), IsOk());
  ASSERT_THAT(fs_.MakeDir(root_ + "/gen-0000000000000041.broken"), IsOk());
  auto saved = SaveSample(fs_, root_, 2);
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(*saved, Generation(42));
}

TEST_F(CheckpointTest, InputThatCannotBeWrittenLeavesNothingBehind) {
  const std::vector<std::byte> three(3);
  CheckpointStore store(fs_, root_, {.cluster_id = kTestCluster});
  const auto save = [&](std::vector<CheckpointFile> files) { return store.Save({}, files); };
  EXPECT_THAT(save({{.name = "../x"}}), StatusIs(Code::kInvalidArgument, HasSubstr("../x")));
  EXPECT_THAT(save({{.name = "x"}, {.name = "x"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("\"x\"")));
  EXPECT_THAT(save({{.name = "x", .tensors = {{.name = "w", .shape = {1}, .bytes = three}}}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("\"w\" has 3 bytes")));
  EXPECT_THAT(CheckpointStore(fs_, root_, {}).Save({}, {}),
              StatusIs(Code::kInvalidArgument, HasSubstr("cluster id")));
  EXPECT_THAT(Names(root_), IsEmpty());
}

TEST_F(CheckpointTest, AReaderChangesNothingAndDoesNotSave) {
  ASSERT_THAT(SaveSample(fs_, root_, 1), IsOk());
  ASSERT_THAT(SaveSample(fs_, root_, 2), IsOk());
  testing::WriteFile(root_ + "/gen-0000000000000002/MANIFEST.json", "{}");
  ASSERT_THAT(fs_.MakeDir(root_ + "/.tmp-0000000000000003-1-1"), IsOk());
  const auto before = Names(root_);
  CheckpointStore reader(fs_, root_, {.access = Access::kReadOnly});
  auto loaded = reader.LoadNewest();
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->meta.step, Step(1));
  EXPECT_EQ(Names(root_), before);
  EXPECT_THAT(reader.Save({}, {}), StatusIs(Code::kInvalidArgument, HasSubstr("ownership")));
}

TEST_F(CheckpointTest, FilesAreForTheOwnerOnly) {
  ASSERT_THAT(SaveSample(fs_, root_, 1), IsOk());
  struct stat info {};
  ASSERT_EQ(::stat((root_ + "/gen-0000000000000001").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat((root_ + "/gen-0000000000000001/model.safetensors").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

// A killed process loses nothing that it wrote, a power cut does: so the order of syncs is
// asserted here, operation by operation.
TEST_F(CheckpointTest, EverythingIsSyncedBeforeTheNameThatReadersLookFor) {
  ASSERT_THAT(SaveSample(fs_, root_, 1), IsOk());
  ASSERT_THAT(SaveSample(fs_, root_, 2), IsOk());
  std::vector<std::string> seen;
  FaultyFileSystem fs(fs_, {}, [&](std::string operation) {
    // Paths in the root, without the part of a temporary name that differs between runs.
    for (std::size_t at; (at = operation.find(root_ + "/")) != std::string::npos;) {
      operation.erase(at, root_.size() + 1);
    }
    for (std::size_t at;
         (at = operation.find(fmt::format("-{}-", ::getpid()))) != std::string::npos;) {
      operation.erase(at, operation.find_first_of("/ ", at) - at);
    }
    if (seen.empty() || seen.back() != operation) seen.push_back(operation);
  });
  ASSERT_THAT(SaveSample(fs, root_, 3, /*keep=*/2), IsOk());
  const std::string tmp = ".tmp-0000000000000003", gen = "gen-0000000000000003";
  const std::vector<std::string> expected{
      "stat " + root_,
      "list " + root_,
      "mkdir " + tmp,
      "create " + tmp + "/model.safetensors",
      "write " + tmp + "/model.safetensors",
      "fsync " + tmp + "/model.safetensors",
      "close " + tmp + "/model.safetensors",
      "create " + tmp + "/optimizer-00001.safetensors",
      "write " + tmp + "/optimizer-00001.safetensors",
      "fsync " + tmp + "/optimizer-00001.safetensors",
      "close " + tmp + "/optimizer-00001.safetensors",
      "create " + tmp + "/MANIFEST.json",
      "write " + tmp + "/MANIFEST.json",
      "fsync " + tmp + "/MANIFEST.json",
      "close " + tmp + "/MANIFEST.json",
      "fsync " + tmp,
      "rename " + tmp + " to " + gen,
      "fsync " + root_,
      "create .tmp-LATEST",
      "write .tmp-LATEST",
      "fsync .tmp-LATEST",
      "close .tmp-LATEST",
      "rename .tmp-LATEST to LATEST",
      "fsync " + root_,
      "size " + gen + "/MANIFEST.json",
      "read " + gen + "/MANIFEST.json",
      "size " + gen + "/model.safetensors",
      "read " + gen + "/model.safetensors",
      "size " + gen + "/optimizer-00001.safetensors",
      "read " + gen + "/optimizer-00001.safetensors",
      "rename gen-0000000000000001 to .tmp-old-gen-0000000000000001",
      "remove .tmp-old-gen-0000000000000001"};
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace paceline::disk
