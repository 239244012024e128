// Damage that happens to a checkpoint after it was saved.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/rng.h"
#include "disk/checkpoint.h"
#include "disk/checkpoint_test_util.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "wire/crc32c.h"

namespace paceline::disk {
namespace {

namespace stdfs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

constexpr char kShard[] = "model.safetensors";
constexpr char kSecondShard[] = "optimizer-00001.safetensors";

void FlipBit(const std::string& path, std::size_t bit) {
  std::string content = testing::ReadFile(path);
  ASSERT_FALSE(content.empty());
  bit %= content.size() * 8;
  content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << (bit % 8)));
  testing::WriteFile(path, content);
}

// Replaces the body of a manifest and seals it again.
void EditManifest(const std::string& dir, const std::string& from, const std::string& to) {
  std::string text = testing::ReadFile(dir + "/MANIFEST.json");
  const std::size_t begin = text.find("\"manifest\":") + 11;
  text = text.substr(begin, text.size() - begin - 2);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  testing::WriteFile(dir + "/MANIFEST.json", SealManifest(text.replace(at, from.size(), to)));
}

class CheckpointDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::uint64_t n = 1; n <= 3; ++n) ASSERT_THAT(SaveSample(fs_, root_, n), IsOk());
  }
  std::string Gen(int n) const { return fmt::format("{}/gen-{:016}", root_, n); }

  testing::TempDir dir_;
  PosixFileSystem fs_;
  const std::string root_ = dir_ / "ckpt";
};

struct Damage {
  const char* claim;
  std::function<void(const std::string& dir)> apply;
  const char* reason;
};

class DamagedGeneration : public CheckpointDamageTest,
                          public ::testing::WithParamInterface<Damage> {};

TEST_P(DamagedGeneration, IsSetAsideAndTheOneBeforeIsLoaded) {
  GetParam().apply(Gen(3));
  auto loaded = Load(fs_, root_);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->meta.generation, Generation(2));
  ExpectWholeSample(*loaded);
  EXPECT_THAT(loaded->warnings,
              ElementsAre(AllOf(HasSubstr(Gen(3)), HasSubstr(GetParam().reason))));
  EXPECT_THAT(Names(root_), AllOf(Contains("gen-0000000000000003.broken"),
                                  Not(Contains("gen-0000000000000003"))));
  auto saved = SaveSample(fs_, root_, 4);
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(*saved, Generation(4));
}

TEST_P(DamagedGeneration, WhenAllAreDamagedNothingIsDeleted) {
  for (int n = 1; n <= 3; ++n) GetParam().apply(Gen(n));
  // Also on the second start: a broken run must not begin again from nothing by itself.
  for (int start = 0; start < 2; ++start) {
    EXPECT_THAT(Load(fs_, root_), StatusIs(Code::kBadCheckpoint, HasSubstr(root_)));
    EXPECT_THAT(Names(root_),
                ElementsAre("LATEST", "gen-0000000000000001.broken", "gen-0000000000000002.broken",
                            "gen-0000000000000003.broken"));
  }
}

const std::vector<Damage> kDamages{
    Damage{"ShardTruncated",
           [](const std::string& dir) { stdfs::resize_file(dir + "/" + kShard, 100); },
           "has 100 bytes, expected"},
    Damage{"ShardEmpty",
           [](const std::string& dir) { stdfs::resize_file(dir + "/" + kSecondShard, 0); },
           "has 0 bytes, expected"},
    Damage{"ShardGrown",
           [](const std::string& dir) { stdfs::resize_file(dir + "/" + kShard, 1 << 20); },
           "has 1048576 bytes, expected"},
    Damage{"ShardDeleted", [](const std::string& dir) { stdfs::remove(dir + "/" + kSecondShard); },
           "No such file"},
    Damage{"ShardIsALink",
           [](const std::string& dir) {
             stdfs::rename(dir + "/" + kShard, dir + "/elsewhere");
             stdfs::create_symlink("elsewhere", dir + "/" + kShard);
           },
           "symbolic link"},
    Damage{"ShardIsADirectory",
           [](const std::string& dir) {
             stdfs::remove(dir + "/" + kShard);
             stdfs::create_directory(dir + "/" + kShard);
           },
           "not a regular file"},
    Damage{"ShardIsNoSafetensors",
           [](const std::string& dir) {
             std::string content = testing::ReadFile(dir + "/" + kShard);
             const auto crc = [&] {
               return fmt::format("{:08x}", wire::Crc32c(std::as_bytes(std::span(content))));
             };
             const std::string before = crc();
             content[8] = 'x';
             testing::WriteFile(dir + "/" + kShard, content);
             EditManifest(dir, before, crc());
           },
           "start with '{'"},
    Damage{"ManifestDeleted", [](const std::string& dir) { stdfs::remove(dir + "/MANIFEST.json"); },
           "MANIFEST.json: No such file"},
    Damage{"ManifestEmpty",
           [](const std::string& dir) { testing::WriteFile(dir + "/MANIFEST.json", ""); },
           "0 bytes that are no manifest"},
    Damage{"ManifestTruncated",
           [](const std::string& dir) { stdfs::resize_file(dir + "/MANIFEST.json", 100); },
           "100 bytes that are no manifest"},
    Damage{"ManifestIsInvalidJson",
           [](const std::string& dir) { EditManifest(dir, "\"seed\":", "\"seed\""); },
           "invalid JSON"},
    Damage{"ManifestIsHuge",
           [](const std::string& dir) {
             stdfs::resize_file(dir + "/MANIFEST.json", std::uintmax_t{1} << 40);
           },
           "at most 16777216"},
    Damage{
        "ManifestPromisesMoreThanThereIs",
        [](const std::string& dir) { EditManifest(dir, "\"bytes\": ", "\"bytes\": 999999999999"); },
        "expected 999999999999"},
    Damage{
        "ManifestOfAnotherGeneration",
        [](const std::string& dir) { EditManifest(dir, "\"generation\": ", "\"generation\": 9"); },
        "manifest of generation 9"},
    Damage{"DirectoryIsEmpty",
           [](const std::string& dir) {
             stdfs::remove_all(dir);
             stdfs::create_directory(dir);
           },
           "No such file"},
    Damage{"DirectoryIsAFile",
           [](const std::string& dir) {
             stdfs::remove_all(dir);
             testing::WriteFile(dir, "x");
           },
           "is not a directory"}};

INSTANTIATE_TEST_SUITE_P(Variants, DamagedGeneration, ::testing::ValuesIn(kDamages),
                         [](const auto& test) { return std::string(test.param.claim); });

TEST_F(CheckpointDamageTest, ALinkInPlaceOfAGenerationIsNotFollowed) {
  stdfs::rename(Gen(3), dir_ / "outside");
  stdfs::create_directory_symlink(dir_ / "outside", Gen(3));
  auto loaded = Load(fs_, root_);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->meta.generation, Generation(2));
  EXPECT_TRUE(stdfs::exists(dir_ / "outside/MANIFEST.json"));
}

TEST_F(CheckpointDamageTest, OneFlippedBitAnywhereIsReportedWithBothChecksums) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 3, 0);
  for (const std::string name : {kShard, kSecondShard}) {
    for (int round = 0; round < 20; ++round) {
      const std::string path = Gen(3) + "/" + name;
      const std::string content = testing::ReadFile(path);
      FlipBit(path, rng.Next());
      CheckpointStore reader(fs_, root_, {.access = Access::kReadOnly});
      auto loaded = reader.LoadNewest();
      ASSERT_THAT(loaded, IsOk());
      EXPECT_EQ(loaded->meta.generation, Generation(2));
      const auto crc = [](const std::string& text) {
        return fmt::format("{:08x}", wire::Crc32c(std::as_bytes(std::span(text))));
      };
      EXPECT_THAT(loaded->warnings,
                  ElementsAre(AllOf(HasSubstr(path), HasSubstr("expected " + crc(content)),
                                    HasSubstr("CRC-32C " + crc(testing::ReadFile(path))))));
      testing::WriteFile(path, content);
    }
  }
}

TEST_F(CheckpointDamageTest, AFlippedBitInTheManifestIsNoticed) {
  const std::string path = Gen(3) + "/MANIFEST.json";
  const std::string content = testing::ReadFile(path);
  FlipBit(path, content.find("\"step\": 3") * 8 + 8 * 8);  // the digit: step 2
  auto loaded = Load(fs_, root_);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->meta.generation, Generation(2));
  EXPECT_THAT(loaded->warnings, ElementsAre(AllOf(HasSubstr(path), HasSubstr("expected"))));
}

TEST_F(CheckpointDamageTest, AnotherClusterAndANewerProgramAreMismatchesAndTouchNothing) {
  const auto before = Names(root_);
  CheckpointStore other(fs_, root_, {.cluster_id = "cluster-b"});
  EXPECT_THAT(other.LoadNewest(),
              StatusIs(Code::kMismatch, AllOf(HasSubstr("\"cluster-a\""),
                                              HasSubstr("\"cluster-b\""), HasSubstr(Gen(3)))));
  EditManifest(Gen(3), "\"schema\": 1", "\"schema\": 2");
  EXPECT_THAT(Load(fs_, root_),
              StatusIs(Code::kMismatch,
                       AllOf(HasSubstr(Gen(3)), HasSubstr("schema 2"), HasSubstr("reads 1"))));
  EXPECT_EQ(Names(root_), before);
}

TEST_F(CheckpointDamageTest, AFileNameThatLeavesTheDirectoryIsNeverOpened) {
  stdfs::copy_file(Gen(3) + "/" + kShard, dir_ / "outside");
  EditManifest(Gen(3), kShard, "../../outside");
  auto loaded = Load(fs_, root_);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->meta.generation, Generation(2));
  EXPECT_THAT(loaded->warnings, ElementsAre(HasSubstr("no plain name")));
}

TEST_F(CheckpointDamageTest, ATakenBrokenNameIsNotOverwritten) {
  ASSERT_THAT(fs_.MakeDir(root_ + "/gen-0000000000000003.broken"), IsOk());
  testing::WriteFile(Gen(3) + "/MANIFEST.json", "");
  ASSERT_THAT(Load(fs_, root_), IsOk());
  EXPECT_THAT(Names(root_), AllOf(Contains("gen-0000000000000003.broken"),
                                  Contains("gen-0000000000000003.broken-2")));
}

TEST_F(CheckpointDamageTest, WhatMayNotBeReadIsADiskErrorAndIsNotSetAside) {
  const auto before = Names(root_);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(Gen(3).c_str(), 0), 0);
  const int status = RunInChild([&] {
    // Root may read everything.
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
    const auto loaded = Load(fs_, root_);
    return loaded.status().code() == Code::kDisk &&
                   loaded.status().message().find("Permission denied") != std::string::npos
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::chmod(Gen(3).c_str(), 0700), 0);
  EXPECT_EQ(Names(root_), before);
}

}  // namespace
}  // namespace paceline::disk
