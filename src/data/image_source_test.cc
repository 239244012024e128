#include "data/image_source.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_test_util.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::data {
namespace {

namespace fs = std::filesystem;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::paceline::testing::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void Put(const TempDir& dir, const std::string& name, const std::string& content) {
  fs::create_directories((dir.path() / name).parent_path());
  testing::WriteFile(dir.path() / name, content);
}

void PutFolders(const TempDir& dir) {
  Put(dir, "train/cat/1.jpg", FlatJpeg(40, 30, 255, 0, 0));
  Put(dir, "train/dog/1.jpg", FlatJpeg(30, 40, 0, 255, 0));
  Put(dir, "train/dog/2.jpg", FlatJpeg(30, 40, 0, 0, 255));
  Put(dir, "val/dog/1.JPEG", FlatJpeg(50, 40, 255, 255, 255));
}

std::string Shard(const std::string& label) {
  return TarFile("1.jpg", FlatJpeg(30, 30, 1, 2, 3)) + TarFile("1.cls", label) + TarEnd();
}

void PutCifar(const TempDir& dir) {
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    Put(dir, std::string(name) + ".bin", std::string(3073 * 2, '\3'));
  }
}

constexpr ImageRequest kSmallPhotos{.shape = {3, 16, 16}, .classes = 2};

// The first held-out sample: its last pixel and its label.
struct First {
  std::vector<std::int64_t> shape;
  float pixel;
  std::int64_t label;
};
First Look(const BatchSource& source) {
  BatchBuffer buffer;
  const std::vector<SampleRef> samples{{0, 0}};
  EXPECT_THAT(source.Fill({.samples = samples}, buffer), IsOk());
  const auto& tensors = buffer.batch.tensors;
  return {tensors[0].shape, tensors[0].Floats().back(), tensors[1].Integers()[0]};
}

TEST(OpenImages, FindsFoldersOfClasses) {
  TempDir dir;
  PutFolders(dir);
  const auto sources = OpenImages(kSmallPhotos, dir.path());
  ASSERT_THAT(sources, IsOk());
  EXPECT_EQ(sources->train->size(), 3U);
  EXPECT_EQ(sources->held_out->size(), 1U);
  EXPECT_THAT(sources->warnings, IsEmpty());
  const First first = Look(*sources->held_out);
  EXPECT_EQ(first.shape, (std::vector<std::int64_t>{1, 3, 16, 16}));
  EXPECT_EQ(first.label, 1) << "numbered as in train/, though val/ has only this class";
  EXPECT_NEAR(first.pixel, (1 - 0.406) / 0.225, 0.02);
  EXPECT_TRUE(fs::exists(dir.path() / ".paceline" / "train.index"));
}

TEST(OpenImages, KeepsTheIndexWhereItIsTold) {
  TempDir dir, cache;
  PutFolders(dir);
  ASSERT_THAT(OpenImages(kSmallPhotos, dir.path(), cache.path() / "here"), IsOk());
  EXPECT_TRUE(fs::exists(cache.path() / "here" / "val.index"));
  EXPECT_FALSE(fs::exists(dir.path() / ".paceline"));
}

TEST(OpenImages, FindsTarFilesInFoldersOrByName) {
  for (const char* pattern : {"train/a-0.tar val/b-0.tar", "set-train-0.tar set-val-0.tar"}) {
    TempDir dir;
    const std::string text = pattern;
    Put(dir, text.substr(0, text.find(' ')), Shard("0"));
    Put(dir, text.substr(text.find(' ') + 1), Shard("1"));
    const auto sources = OpenImages(kSmallPhotos, dir.path());
    ASSERT_THAT(sources, IsOk());
    EXPECT_EQ(Look(*sources->train).label, 0);
    EXPECT_EQ(Look(*sources->held_out).label, 1);
  }
}

TEST(OpenImages, CompressionGetsValuesBetween0And1AndNeedsNoClasses) {
  TempDir dir;
  PutFolders(dir);
  const auto sources = OpenImages({.shape = {3, 24, 24}, .range = PixelRange::kUnit}, dir.path());
  ASSERT_THAT(sources, IsOk());
  EXPECT_NEAR(Look(*sources->held_out).pixel, 1, 1e-3);
}

TEST(OpenImages, SaysWhatWasFoundAndWhatTheModelWants) {
  TempDir folders, shards, cifar;
  PutFolders(folders);
  ImageRequest request = kSmallPhotos;
  request.classes = 1;
  EXPECT_THAT(OpenImages(request, folders.path()),
              StatusIs(Code::kInvalidArgument, HasSubstr("train has 2 classes, the model 1")));
  request.classes = 5;
  const auto fewer = OpenImages(request, folders.path());
  ASSERT_THAT(fewer, IsOk());
  EXPECT_THAT(fewer->warnings, Contains(HasSubstr("has 2 classes, the model 5")));

  Put(shards, "x-train.tar", Shard("0"));
  Put(shards, "x-val.tar", Shard("5"));
  EXPECT_THAT(
      OpenImages(request, shards.path()),
      StatusIs(Code::kInvalidArgument,
               AllOf(HasSubstr("x-val.tar: byte offset 512 has label 5"), HasSubstr("5 classes"))));

  PutCifar(cifar);
  request = {.shape = {3, 224, 224}, .classes = 1000};
  EXPECT_THAT(OpenImages(request, cifar.path()),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("CIFAR-10, images of 3x32x32"),
                                                     HasSubstr("takes 3x224x224"))));
  EXPECT_THAT(OpenImages({.classes = 2}, cifar.path()),
              StatusIs(Code::kInvalidArgument, HasSubstr("10 classes, the model 2")));
  const auto good = OpenImages({.classes = 10}, cifar.path());
  ASSERT_THAT(good, IsOk());
  EXPECT_EQ(good->train->size(), 10U);
  EXPECT_EQ(Look(*good->held_out).label, 3);
}

TEST(OpenImages, SaysWhatIsMissing) {
  TempDir dir;
  EXPECT_THAT(OpenImages(kSmallPhotos, dir.path() / "nowhere"),
              StatusIs(Code::kBadData, HasSubstr("nowhere: no such folder")));
  EXPECT_THAT(OpenImages(kSmallPhotos, dir.path()),
              StatusIs(Code::kBadData, HasSubstr("no images that are known")));
  Put(dir, "train/cat/1.jpg", FlatJpeg(9, 9, 1, 1, 1));
  EXPECT_THAT(OpenImages(kSmallPhotos, dir.path()),
              StatusIs(Code::kBadData, HasSubstr("val: no folder")));
  Put(dir, "val/unicorn/1.jpg", FlatJpeg(9, 9, 1, 1, 1));
  EXPECT_THAT(OpenImages(kSmallPhotos, dir.path()),
              StatusIs(Code::kBadData, HasSubstr("val/unicorn: a class that train/")));
  TempDir tars;
  Put(tars, "train/1.tar", Shard("0"));
  EXPECT_THAT(OpenImages(kSmallPhotos, tars.path()), StatusIs(Code::kBadData, HasSubstr("'val'")));
}

TEST(MakeSyntheticImages, HaveTheShapeTheClassesAndTheRangeThatTheModelWants) {
  const ImageSources sources =
      MakeSyntheticImages({.shape = {3, 64, 64}, .classes = 1000, .range = PixelRange::kUnit},
                          {.seed = 1, .train = 3000, .held_out = 20});
  EXPECT_EQ(sources.train->size(), 3000U);
  EXPECT_EQ(sources.held_out->size(), 20U);
  const First first = Look(*sources.held_out);
  EXPECT_EQ(first.shape, (std::vector<std::int64_t>{1, 3, 64, 64}));
  EXPECT_GE(first.pixel, 0);
  EXPECT_LE(first.pixel, 1);
}

}  // namespace
}  // namespace paceline::data
