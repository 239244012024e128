#include "job/checkpoint_export.h"

#include <cstring>
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
  // Leaves another checkpoint of a run with these files, each with one tensor of its own value,
  // from `first` on.
  Generation Leave(const std::vector<std::string>& names, std::uint64_t step = 1, float first = 1) {
    std::filesystem::create_directories(run_);
    std::vector<std::vector<float>> values;
    std::vector<disk::CheckpointFile> files;
    values.reserve(names.size());
    for (const std::string& name : names) {
      values.emplace_back(6, first + static_cast<float>(values.size()));
      disk::CheckpointFile file{.name = name};
      file.tensors.push_back({.name = "conv.weight",
                              .dtype = wire::DType::kF32,
                              .shape = {2, 3},
                              .bytes = std::as_bytes(std::span(values.back()))});
      files.push_back(std::move(file));
    }
    disk::CheckpointStore store(fs_, RunDirectory(run_).CheckpointDirectory(),
                                {.cluster_id = "test"});
    const auto saved = store.Save({.step = Step(step)}, files);
    EXPECT_THAT(saved, IsOk());
    return saved.ok() ? *saved : Generation(0);
  }

  // What Leave() wrote as `first`.
  static float FirstValue(const std::string& path) {
    const std::string bytes = testing::ReadFile(path);
    float value = 0;
    std::memcpy(&value, bytes.data() + bytes.size() - sizeof(value), sizeof(value));
    return value;
  }

  testing::TempDir dir_;
  disk::PosixFileSystem fs_;
  const std::string run_ = dir_ / "run", out_ = dir_ / "out";
};

TEST_F(CheckpointExportTest, TheAverageIsWrittenWhenAskedFor) {
  Leave({"model.safetensors", "ema.safetensors"});
  const auto without = ExportCheckpoint(fs_, run_, dir_ / "without", {});
  ASSERT_THAT(without, IsOk());
  EXPECT_THAT(without->files, ElementsAre(dir_ / "without/model.safetensors"));
  const auto both = ExportCheckpoint(fs_, run_, out_, {.average = Average::kExport});
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
  EXPECT_THAT(ExportCheckpoint(fs_, run_, out_, {.average = Average::kExport}),
              StatusIs(Code::kInvalidArgument, HasSubstr("it was trained without --ema")));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(CheckpointExportTest, TheBestIsNotTheNewest) {
  const Generation best = Leave({"model.safetensors", "ema.safetensors"}, 10, 5);
  Leave({"model.safetensors", "ema.safetensors"}, 20, 7);
  EXPECT_THAT(ExportCheckpoint(fs_, run_, out_, {.which = WhichCheckpoint::kBest}),
              StatusIs(Code::kInvalidArgument, HasSubstr("it was trained without --keep-best")));
  EXPECT_FALSE(std::filesystem::exists(out_));
  disk::CheckpointStore store(fs_, RunDirectory(run_).CheckpointDirectory(),
                              {.cluster_id = "test"});
  ASSERT_THAT(store.MarkBest(best), IsOk());
  const auto done = ExportCheckpoint(
      fs_, run_, out_, {.which = WhichCheckpoint::kBest, .average = Average::kExport});
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->step, Step(10));
  EXPECT_EQ(FirstValue(out_ + "/model.safetensors"), 5);
  EXPECT_EQ(FirstValue(out_ + "/ema.safetensors"), 6);
  const auto newest = ExportCheckpoint(fs_, run_, dir_ / "newest");
  ASSERT_THAT(newest, IsOk());
  EXPECT_EQ(newest->step, Step(20));
  EXPECT_EQ(FirstValue(dir_ / "newest/model.safetensors"), 7);
}

TEST_F(CheckpointExportTest, NoFileIsReplaced) {
  Leave({"model.safetensors", "ema.safetensors"});
  std::filesystem::create_directories(out_);
  testing::WriteFile(out_ + "/ema.safetensors", "mine");
  EXPECT_THAT(ExportCheckpoint(fs_, run_, out_, {.average = Average::kExport}),
              StatusIs(Code::kInvalidArgument, HasSubstr("ema.safetensors is there already")));
  EXPECT_FALSE(std::filesystem::exists(out_ + "/model.safetensors"));
}

}  // namespace
}  // namespace paceline::job
