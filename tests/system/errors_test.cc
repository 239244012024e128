// Bad input of every kind: one clear line, the documented exit code, no stack trace.
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kUsage = 2, kData = 12, kCheckpoint = 13, kNotFinite = 15, kDisk = 16;

TEST(Errors, WrongArgumentsAreNamed) {
  struct Case {
    std::vector<std::string> arguments;
    const char* text;
  };
  const std::vector<Case> cases{
      {{"trian"}, "unknown command 'trian'"},
      {{"train"}, "which MODEL?"},
      {{"train", "vgg61"}, "unknown model 'vgg61'; did you mean 'vgg16'?"},
      {{"train", "vgg16", "--bacth", "3"}, "--bacth"},
      {{"train", "vgg16", "--batch", "-3"}, "--batch is -3"},
      {{"train", "vgg16", "--batch", "x"}, "--batch"},
      {{"train", "vgg16", "--lr", "nan"}, "--lr"},
      {{"train", "vgg16", "--workers", "2", "--shards", "1"},
       "--shards 1 is less than --workers 2"},
      {{"train", "vgg16", "--optimizer", "sdg"}, "--optimizer is 'sdg'"},
      {{"train", "vgg16", "--config", "/no/file.toml"}, "/no/file.toml"},
      {{"models", "vgg61"}, "unknown model"},
      {{"bench"}, "which benchmark?"},
      {{"bench", "single-nod"}, "unknown benchmark 'single-nod'"},
      {{"bench", "single-node", "--batch", "0"}, "batch"},
      {{"bench", "single-node", "--model", "vgg61"}, "unknown model"},
      {{"bench", "scaling", "--workers", "1"}, "--workers 1"},
      {{"bench", "scaling", "--model", "vgg61"}, "unknown model"},
  };
  for (const Case& wrong : cases) ExpectError(RunPaceline(wrong.arguments), kUsage, wrong.text);
}

TEST(Errors, MissingOrBadDataIsNamedBeforeAnyStep) {
  const TempDir dir;
  const auto train = [&](const std::string& data) {
    return RunPaceline(SmallTraining(dir / "run", {"--data", data, "--steps", "1"}));
  };
  ExpectError(train("/no/such/folder"), kData, "/no/such/folder");
  std::filesystem::create_directory(dir / "data");
  ExpectError(train(dir / "data"), kData, "data_batch_1.bin");
  for (int i = 1; i <= 5; ++i) {
    WriteFile(dir / ("data/data_batch_" + std::to_string(i) + ".bin"), std::string(3073 * 4, '\1'));
  }
  WriteFile(dir / "data/test_batch.bin", std::string(3073 * 4, '\1'));
  WriteFile(dir / "data/data_batch_3.bin", std::string(3073 * 4 - 1, '\1'));
  ExpectError(train(dir / "data"), kData, "data_batch_3.bin");
  std::string bad_label(3073 * 4, '\1');
  bad_label[3073 * 2] = '\xc8';
  WriteFile(dir / "data/data_batch_3.bin", bad_label);
  ExpectError(train(dir / "data"), kData, "6146");  // the offset of record 2
  EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoints"));

  const CommandResult skipped = RunPaceline(SmallTraining(
      dir / "skip", {"--data", dir / "data", "--steps", "1", "--bad-record", "skip"}));
  ASSERT_EQ(skipped.state.code, 0) << skipped.err;
  EXPECT_EQ(LastJson(skipped.out)["bad_records"], 1);
}

TEST(Errors, AnUnwritableRunDirectoryIsADiskError) {
  const TempDir dir;
  WriteFile(dir / "file", "in the way");
  ExpectError(RunPaceline(SmallTraining(dir / "file/run", {"--steps", "1"})), kDisk, "file/run");
}

// Runs a training whose run directory is on a small or read-only tmpfs of its own.
CommandResult TrainOnTmpfs(const TempDir& dir, const std::string& mount_options,
                           const std::vector<std::string>& more) {
  const std::string mount = dir / "mount";
  std::filesystem::create_directory(mount);
  std::vector<std::string> argv{"unshare",
                                "--mount",
                                "sh",
                                "-c",
                                "mount -t tmpfs -o \"$1\" none \"$2\" && shift 2 && exec \"$@\"",
                                "sh",
                                mount_options,
                                mount,
                                Program("paceline")};
  for (const std::string& argument : SmallTraining(mount + "/run", more)) argv.push_back(argument);
  auto result = RunCommand({.argv = argv}, 240s);
  EXPECT_THAT(result, IsOk());
  return *result;
}

TEST(Errors, AReadOnlyFolderIsADiskError) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const TempDir dir;
  ExpectError(TrainOnTmpfs(dir, "ro", {"--steps", "1"}), kDisk, "Read-only file system");
}

TEST(Errors, AFullDiskIsADiskErrorAndLeavesNoHalfCheckpoint) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const TempDir dir;
  ExpectError(TrainOnTmpfs(dir, "size=1m", {"--steps", "1"}), kDisk, "No space left on device");
}

TEST(Errors, NanStopsWithItsOwnCode) {
  const TempDir dir;
  ExpectError(RunPaceline(SmallTraining(dir / "run", {"--steps", "3", "--nan-policy", "stop"}),
                          {{"PACELINE_FAULTS", "nan:step=1"}}),
              kNotFinite, "step 1");
}

TEST(Errors, WhenEveryCheckpointIsBadNothingIsDeleted) {
  const TempDir dir;
  ASSERT_EQ(RunPaceline(SmallTraining(dir / "run", {"--steps", "1"})).state.code, 0);
  const std::string generation = dir / "run/checkpoints/gen-0000000000000001";
  std::filesystem::resize_file(generation + "/model.safetensors", 100);
  ExpectError(RunPaceline({"train", "--resume", "--run", dir / "run"}), kCheckpoint, "checkpoint");
  EXPECT_TRUE(std::filesystem::exists(generation + ".broken/model.safetensors"));
}

}  // namespace
}  // namespace paceline::testing
