// A save that dies or fails at every one of its operations.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "disk/checkpoint.h"
#include "disk/checkpoint_test_util.h"
#include "disk/faulty_file_system.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::disk {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr int kKeep = 2;  // so that the save under test also removes one
constexpr std::uint64_t kNew = 4;

// A root with generations 2 and 3; the save under test makes 4. It also holds what an earlier
// dead save left, so that removing it is among the operations.
class CheckpointCrashTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::uint64_t n = 1; n < kNew; ++n) {
      ASSERT_THAT(SaveSample(posix_, dir_ / "template", n, kKeep), IsOk());
    }
    std::filesystem::create_directory(dir_ / "template/.tmp-0000000000000004-1-1");
    testing::WriteFile(dir_ / "template/.tmp-0000000000000004-1-1/model.safetensors", "half");
    FaultyFileSystem counting(posix_, {});
    ASSERT_THAT(SaveSample(counting, FreshRoot(), kNew, kKeep), IsOk());
    operations_ = counting.operations();
    ASSERT_GT(operations_, 30U);
  }

  const std::string& FreshRoot() {
    std::filesystem::remove_all(root_);
    std::filesystem::copy(dir_ / "template", root_, std::filesystem::copy_options::recursive);
    return root_;
  }

  Result<Generation> SaveWith(const std::string& plan) {
    FaultyFileSystem faulty(posix_, *ParseFaultPlan(plan));
    return SaveSample(faulty, root_, kNew, kKeep);
  }

  // The promise: the new one or the one before, whole, and nothing half-made left.
  void ExpectNewOrPrevious() {
    EXPECT_THAT(Names(root_), Contains("gen-0000000000000003"));
    auto loaded = Load(posix_, root_);
    ASSERT_THAT(loaded, IsOk());
    EXPECT_THAT(loaded->meta.generation.value(), AnyOf(Eq(kNew - 1), Eq(kNew)));
    EXPECT_EQ(loaded->meta.step.value(), loaded->meta.generation.value());
    EXPECT_TRUE(loaded->warnings.empty()) << loaded->warnings.front();
    ExpectWholeSample(*loaded);
    EXPECT_FALSE(HasTemporaries(root_));
  }

  // The one before is still whole while the new one is there.
  void ExpectPreviousWithoutNew() {
    std::filesystem::remove_all(root_ + "/gen-0000000000000004");
    auto loaded = Load(posix_, root_);
    ASSERT_THAT(loaded, IsOk());
    EXPECT_EQ(loaded->meta.generation.value(), kNew - 1);
    ExpectWholeSample(*loaded);
  }

  void ExpectNextSaveWorks() {
    auto saved = SaveSample(posix_, root_, kNew + 1, kKeep);
    ASSERT_THAT(saved, IsOk());
    auto loaded = Load(posix_, root_);
    ASSERT_THAT(loaded, IsOk());
    EXPECT_EQ(loaded->meta.generation, *saved);
    EXPECT_EQ(loaded->meta.step, Step(kNew + 1));
    ExpectWholeSample(*loaded);
    EXPECT_FALSE(HasTemporaries(root_));
  }

  const testing::TempDir dir_{testing::TempDir::Place::kMemory};
  PosixFileSystem posix_;
  const std::string root_ = dir_ / "ckpt";
  std::uint64_t operations_ = 0;
};

class KilledSave : public CheckpointCrashTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(KilledSave, LeavesTheNewOrThePreviousGenerationWhole) {
  for (std::uint64_t n = 1; n <= operations_; ++n) {
    const std::string plan = fmt::format("{}={}", GetParam(), n);
    SCOPED_TRACE(plan);
    FreshRoot();
    const int status = RunInChild([&] {
      static_cast<void>(SaveWith(plan));
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ExpectNewOrPrevious();
    ExpectPreviousWithoutNew();
    ExpectNextSaveWorks();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, KilledSave,
                         ::testing::Values("kill-before", "kill-torn", "kill-after"));

struct Failure {
  const char* action;
  const char* error;
};

class FailedSave : public CheckpointCrashTest, public ::testing::WithParamInterface<Failure> {};

TEST_P(FailedSave, ReportsTheDiskAndTheNextSaveWorks) {
  for (std::uint64_t n = 1; n <= operations_; ++n) {
    const std::string plan = fmt::format("{}={}:{}", GetParam().action, n, GetParam().error);
    SCOPED_TRACE(plan);
    FreshRoot();
    EXPECT_THAT(SaveWith(plan), StatusIs(Code::kDisk, HasSubstr(root_)));
    ExpectNewOrPrevious();
    ExpectNextSaveWorks();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailedSave,
                         ::testing::Values(Failure{"fail", "ENOSPC"}, Failure{"fail", "EIO"},
                                           Failure{"fail-from", "EROFS"},
                                           Failure{"short-write", "ENOSPC"}),
                         [](const auto& test) {
                           std::string name =
                               fmt::format("{}_{}", test.param.action, test.param.error);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_F(CheckpointCrashTest, AFailedSaveGivesItsSpaceBackAtOnce) {
  for (std::uint64_t n = 1; n <= operations_; ++n) {
    FreshRoot();
    const std::string plan = fmt::format("fail={}:ENOSPC", n);
    SCOPED_TRACE(plan);
    const auto saved = SaveWith(plan);
    ASSERT_THAT(saved, StatusIs(Code::kDisk, HasSubstr("No space left")));
    // Only what could not be removed may stay.
    if (saved.status().message().find("remove ") == std::string::npos && n > 3) {
      EXPECT_FALSE(HasTemporaries(root_));
    }
  }
}

TEST_F(CheckpointCrashTest, TheFirstSaveOfARunMayDieAnywhereToo) {
  FaultyFileSystem counting(posix_, {});
  ASSERT_THAT(SaveSample(counting, dir_ / "first", 1), IsOk());
  for (std::uint64_t n = 1; n <= counting.operations(); ++n) {
    SCOPED_TRACE(n);
    std::filesystem::remove_all(root_);
    const int status = RunInChild([&] {
      static_cast<void>(SaveWith(fmt::format("kill-before={}", n)));
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    auto loaded = Load(posix_, root_);
    if (loaded.ok()) {
      ExpectWholeSample(*loaded);
    } else {
      EXPECT_EQ(loaded.status().code(), Code::kNotFound) << loaded.status().ToString();
    }
    if (std::filesystem::exists(root_)) {
      EXPECT_FALSE(HasTemporaries(root_));
    }
  }
}

TEST_F(CheckpointCrashTest, AFileSizeLimitIsADiskErrorAndThePreviousGenerationStays) {
  FreshRoot();
  const int status = RunInChild([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{8192, 8192};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const auto saved = SaveSample(posix_, root_, kNew, kKeep);
    return saved.status().code() == Code::kDisk && !HasTemporaries(root_) ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  ExpectNewOrPrevious();
  ExpectNextSaveWorks();
}

// Gives back other bytes than were written, like a disk with a bad controller.
class LyingFileSystem final : public FileSystem {
 public:
  explicit LyingFileSystem(FileSystem& base) : base_(base) {}
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return base_.Create(path);
  }
  Result<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                      ReadBack reads) override {
    return base_.OpenForAppend(path, reads);
  }
  Status SyncDir(const std::string& path) override { return base_.SyncDir(path); }
  Status Rename(const std::string& from, const std::string& to) override {
    return base_.Rename(from, to);
  }
  Status MakeDir(const std::string& path) override { return base_.MakeDir(path); }
  Status RemoveAll(const std::string& path) override { return base_.RemoveAll(path); }
  Result<bool> Exists(const std::string& path) override { return base_.Exists(path); }
  Result<std::vector<DirEntry>> List(const std::string& path) override { return base_.List(path); }
  Result<std::uint64_t> Size(const std::string& path) override { return base_.Size(path); }
  Result<std::size_t> ReadAt(const std::string& path, std::uint64_t offset,
                             std::span<std::byte> into) override {
    auto got = base_.ReadAt(path, offset, into);
    if (got.ok() && *got > 0) into[*got / 2] ^= std::byte{1};
    return got;
  }

 private:
  FileSystem& base_;
};

TEST_F(CheckpointCrashTest, WhatDoesNotReadBackIsSetAsideAndNothingOldIsRemoved) {
  FreshRoot();
  LyingFileSystem lying(posix_);
  EXPECT_THAT(SaveSample(lying, root_, kNew, kKeep),
              StatusIs(Code::kDisk, HasSubstr("damaged while writing")));
  const auto names = Names(root_);
  EXPECT_THAT(names, Contains("gen-0000000000000002"));
  EXPECT_THAT(names, Contains("gen-0000000000000003"));
  EXPECT_THAT(names, Contains("gen-0000000000000004.broken"));
}

}  // namespace
}  // namespace paceline::disk
