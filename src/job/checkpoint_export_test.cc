#include "job/checkpoint_export.h"

#include <filesystem>
#include <vector>

#include <gmock/gmock.h>

#include "disk/checkpoint.h"
#include "job/run_dir.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

class CheckpointExportTest : public ::testing::Test {
 protected:
  // A run whose newest checkpoint has these files, each with one tensor of its own value.
  void Leave(const std::vector<std::string>& names) {
    std::filesystem::create_directories(run_);
    std::vector<std::vector<float>> values;
    std::vector<disk::CheckpointFile> files;
    values.reserve(names.size());
    for (const std::string& name : names) {
      values.emplace_back(6, static_cast<float>(values.size() + 1));
      disk::CheckpointFile file{.name = name};
      file.tensors.push_back({.name = "conv.weight",
                              .dtype = wire::DType::kF32,
                              .shape = {2, 3},
                              .bytes = std::as_bytes(std::span(values.back()))});
      files.push_back(std::move(file));
    }
    disk::CheckpointStore store(fs_, RunDirectory(run_).CheckpointDirectory(),
                                {.cluster_id = "test"});
    ASSERT_THAT(store.Save({}, files), IsOk());
  }

  testing::TempDir dir_;
  disk::PosixFileSystem fs_;
  const std::string run_ = dir_ / "run", out_ = dir_ / "out";
};

TEST_F(CheckpointExportTest, TheAverageIsWrittenWhenAskedFor) {
  Leave({"model.safetensors", "ema.safetensors"});
  const auto without = ExportCheckpoint(fs_, run_, dir_ / "without", Average::kLeaveOut);
  ASSERT_THAT(without, IsOk());
  EXPECT_THAT(without->files, ElementsAre(dir_ / "without/model.safetensors"));
  const auto both = ExportCheckpoint(fs_, run_, out_, Average::kExport);
  ASSERT_THAT(both, IsOk());
  EXPECT_THAT(both->files, ElementsAre(out_ + "/model.safetensors", out_ + "/ema.safetensors"));
  EXPECT_EQ(both->dense_floats, 6U);
  const std::string model = testing::ReadFile(both->files[0]);
  const std::string average = testing::ReadFile(both->files[1]);
  EXPECT_EQ(model, testing::ReadFile(without->files[0]));
  EXPECT_EQ(average.size(), model.size());
  EXPECT_NE(average, model);
}

TEST_F(CheckpointExportTest, ARunWithoutAnAverageSaysSo) {
  Leave({"model.safetensors"});
  EXPECT_THAT(ExportCheckpoint(fs_, run_, out_, Average::kExport),
              StatusIs(Code::kInvalidArgument, HasSubstr("it was trained without --ema")));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(CheckpointExportTest, NoFileIsReplaced) {
  Leave({"model.safetensors", "ema.safetensors"});
  std::filesystem::create_directories(out_);
  testing::WriteFile(out_ + "/ema.safetensors", "mine");
  EXPECT_THAT(ExportCheckpoint(fs_, run_, out_, Average::kExport),
              StatusIs(Code::kInvalidArgument, HasSubstr("ema.safetensors is there already")));
  EXPECT_FALSE(std::filesystem::exists(out_ + "/model.safetensors"));
}

}  // namespace
}  // namespace paceline::job
