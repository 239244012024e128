#include "data/photos.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algo/batch_plan.h"
#include "data/image_test_util.h"
#include "data/loader.h"
#include "data/photo_batches.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::data {
namespace {

namespace fs = std::filesystem;
using ::paceline::testing::IsOk;
using ::paceline::testing::ReadFile;
using ::paceline::testing::StatusIs;
using ::paceline::testing::TempDir;
using ::paceline::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Its red says which it is, so that a mix-up shows.
std::string Numbered(unsigned number) {
  return FlatJpeg(40 + number, 30, static_cast<std::uint8_t>(number), 100, 200);
}

std::string Sample(const std::string& name, unsigned number, unsigned label) {
  return TarFile(name + ".jpg", Numbered(number)) + TarFile(name + ".cls", std::to_string(label));
}

ImageLocation Folders(const TempDir& dir) {
  const auto put = [&](const std::string& name, const std::string& content) {
    const fs::path path = dir.path() / "train" / name;
    fs::create_directories(path.parent_path());
    WriteFile(path, content);
  };
  put("zebra/z1.JPEG", Numbered(10));
  put("apple/b.jpg", Numbered(20));
  put("apple/a.jpeg", Numbered(30));
  put("apple/notes.txt", "no image");
  put("apple/.hidden.jpg", "no image");
  return {.root = dir.path(), .paths = {"train"}, .classes = {"apple", "mango", "zebra"}};
}

ImageLocation Shards(const TempDir& dir, const std::vector<std::string>& contents) {
  ImageLocation location{.root = dir.path(), .tar = true};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    location.paths.push_back("shard-" + std::to_string(i) + ".tar");
    WriteFile(dir.path() / location.paths.back(), contents[i]);
  }
  return location;
}

fs::path IndexFile(const TempDir& dir) { return dir.path() / ".cache" / "images.index"; }

Result<std::unique_ptr<Photos>> Open(const TempDir& dir, const ImageLocation& location,
                                     BadRecord policy = BadRecord::kFail) {
  return Photos::Open(location, IndexFile(dir), policy);
}

// "number:label" of each sample; the number as its red tells.
std::vector<std::string> Contents(const Photos& photos) {
  std::vector<std::string> contents;
  for (std::uint64_t i = 0; i < photos.size(); ++i) {
    std::vector<std::byte> bytes;
    std::int64_t label = -1;
    EXPECT_THAT(photos.Read(i, bytes, label), IsOk());
    JpegDecoder decoder;
    EXPECT_THAT(decoder.Open(bytes), IsOk());
    contents.push_back(std::to_string(decoder.width() - 40) + ":" + std::to_string(label));
  }
  return contents;
}

TEST(Photos, TakesLabelsFromTheOrderOfTheFolders) {
  TempDir dir;
  const auto photos = Open(dir, Folders(dir));
  ASSERT_THAT(photos, IsOk());
  EXPECT_THAT(Contents(**photos), ElementsAre("30:0", "20:0", "10:2"));
  EXPECT_THAT((*photos)->Describe(2), HasSubstr("train/zebra/z1.JPEG: byte offset 0"));
  EXPECT_EQ((*photos)->Label((*photos)->WithHighestLabel()), 2);
}

TEST(Photos, TakesSamplesFromTarFilesByTheRulesOfWebDataset) {
  TempDir dir;
  const std::string long_name = std::string(150, 'd') + "/x";
  const auto photos = Open(
      dir,
      Shards(dir, {TarFile("__meta.json__", "{}") + Sample("a/1", 1, 7) + TarFile("b.json", "{}") +
                       TarFile("b.cls", " 3\n") + TarFile("b.JPEG", Numbered(2)) +
                       TarFile("README.txt", "hello") + TarEnd(),
                   GnuLongFile(long_name + ".jpg", Numbered(3)) +
                       PaxFile(long_name + ".cls", "999") + TarEnd()}));
  ASSERT_THAT(photos, IsOk());
  EXPECT_THAT(Contents(**photos), ElementsAre("1:7", "2:3", "3:999"));
  EXPECT_EQ((*photos)->Label((*photos)->WithHighestLabel()), 999);
  EXPECT_THAT((*photos)->Describe(0), HasSubstr("shard-0.tar: byte offset 1536"));
}

struct Broken {
  const char* what;
  std::string tar;
  const char* message;
};

TEST(Photos, NamesBadSamplesOfTarFilesOrLeavesThemOut) {
  const std::string good = Sample("good", 1, 1), later = Sample("later", 2, 2) + TarEnd();
  const std::vector<Broken> all{
      {"no label", TarFile("x.jpg", Numbered(9)), "sample 'x' at byte offset"},
      {"no image", TarFile("x.cls", "1") + TarFile("x.png", "1"), "no jpg"},
      {"apart", TarFile("x.jpg", Numbered(9)) + Sample("y", 3, 3) + TarFile("x.cls", "1"),
       "no cls"},
      {"twice", TarFile("x.jpg", Numbered(9)) + Sample("x", 3, 3), "two images"},
      {"two labels", Sample("x", 9, 3) + TarFile("x.cls", "3"), "two labels"},
      {"two of another", Sample("x", 9, 3) + TarFile("x.txt", "") + TarFile("x.TXT", ""),
       "one suffix"},
      {"label", TarFile("x.jpg", Numbered(9)) + TarFile("x.cls", "cat"), "is no number"},
      {"long label", TarFile("x.jpg", Numbered(9)) + TarFile("x.cls", std::string(30, '1')),
       "is no number"},
      {"png", TarFile("x.jpg", "\x89PNG....") + TarFile("x.cls", "1"), "ff d8 ff"},
      {"empty", TarFile("x.jpg", "") + TarFile("x.cls", "1"), "ff d8 ff"},
  };
  for (const Broken& broken : all) {
    SCOPED_TRACE(broken.what);
    TempDir dir;
    const ImageLocation location = Shards(dir, {good + broken.tar + later});
    EXPECT_THAT(Open(dir, location),
                StatusIs(Code::kBadData, AllOf(HasSubstr("shard-0.tar"), HasSubstr("byte offset"),
                                               HasSubstr(broken.message))));
    const auto photos = Open(dir, location, BadRecord::kSkip);
    ASSERT_THAT(photos, IsOk());
    EXPECT_GE((*photos)->BadRecords(), 1U);
    const auto contents = Contents(**photos);
    EXPECT_EQ(contents.front(), "1:1");
    EXPECT_EQ(contents.back(), "2:2");
    EXPECT_THAT((*photos)->warnings(), ElementsAre(HasSubstr("left out")));
  }
}

TEST(Photos, ACutTarFileKeepsWhatIsWhole) {
  TempDir dir;
  const std::string tar = Sample("a", 1, 1) + Sample("b", 2, 2) + TarEnd();
  const std::size_t second = Sample("a", 1, 1).size();
  const ImageLocation location = Shards(dir, {tar.substr(0, second + 700), tar});
  EXPECT_THAT(Open(dir, location),
              StatusIs(Code::kBadData, AllOf(HasSubstr("shard-0.tar: tar header at byte offset"),
                                             HasSubstr(std::to_string(second)))));
  const auto photos = Open(dir, location, BadRecord::kSkip);
  ASSERT_THAT(photos, IsOk());
  EXPECT_THAT(Contents(**photos), ElementsAre("1:1", "1:1", "2:2"));
}

TEST(Photos, NamesFilesOfFoldersThatAreNoJpeg) {
  TempDir dir;
  const ImageLocation location = Folders(dir);
  WriteFile(dir.path() / "train/apple/aa.JPEG", "\x89PNG");
  WriteFile(dir.path() / "train/zebra/none.jpg", "");
  EXPECT_THAT(Open(dir, location),
              StatusIs(Code::kBadData, AllOf(HasSubstr("apple/aa.JPEG"), HasSubstr("ff d8 ff"),
                                             HasSubstr("1 more"))));
  const auto photos = Open(dir, location, BadRecord::kSkip);
  ASSERT_THAT(photos, IsOk());
  EXPECT_EQ((*photos)->size(), 3U);
  EXPECT_EQ((*photos)->BadRecords(), 2U);
}

TEST(Photos, RefusesASetWithoutImages) {
  TempDir dir;
  EXPECT_THAT(Open(dir, Shards(dir, {TarEnd()})),
              StatusIs(Code::kBadData, HasSubstr("no usable image")));
  EXPECT_THAT(Open(dir, {.root = dir.path(), .tar = true, .paths = {"missing.tar"}}),
              StatusIs(Code::kBadData, HasSubstr("missing.tar")));
}

TEST(Photos, TheIndexIsReadAgainUntilSomethingChanges) {
  TempDir dir;
  const ImageLocation location = Folders(dir);
  ASSERT_THAT(Open(dir, location), IsOk());
  const std::string index = ReadFile(IndexFile(dir));
  // A wrong label that only the index can know.
  auto decoded = DecodeImageIndex(BytesOf(index));
  ASSERT_THAT(decoded, IsOk());
  decoded->images[0].label = 1;
  const auto forged = EncodeImageIndex(*decoded);
  WriteFile(IndexFile(dir), {reinterpret_cast<const char*>(forged.data()), forged.size()});
  EXPECT_THAT(Contents(**Open(dir, location)), ElementsAre("30:1", "20:0", "10:2"));

  WriteFile(dir.path() / "train/apple/c.jpg", Numbered(50));
  EXPECT_THAT(Contents(**Open(dir, location)), ElementsAre("30:0", "20:0", "50:0", "10:2"));
  ImageLocation more = location;
  more.classes.insert(more.classes.begin(), "aardvark");
  EXPECT_THAT(Contents(**Open(dir, more)), ElementsAre("30:1", "20:1", "50:1", "10:3"));
}

TEST(Photos, TheIndexOfTarFilesNoticesNewAndOtherFiles) {
  TempDir dir;
  ASSERT_THAT(Open(dir, Shards(dir, {Sample("a", 1, 1) + TarEnd()})), IsOk());
  const auto two =
      Open(dir, Shards(dir, {Sample("a", 1, 1) + TarEnd(), Sample("b", 2, 2) + TarEnd()}));
  EXPECT_THAT(Contents(**two), ElementsAre("1:1", "2:2"));
  const auto other = Open(dir, Shards(dir, {Sample("a", 3, 1) + Sample("b", 4, 4) + TarEnd()}));
  EXPECT_THAT(Contents(**other), ElementsAre("3:1", "4:4"));
}

TEST(Photos, ADamagedIndexIsMadeAnewAndAReadOnlyPlaceIsNoError) {
  TempDir dir;
  const ImageLocation location = Folders(dir);
  ASSERT_THAT(Open(dir, location), IsOk());
  std::string index = ReadFile(IndexFile(dir));
  index[20] ^= 1;
  WriteFile(IndexFile(dir), index);
  const auto photos = Open(dir, location);
  ASSERT_THAT(photos, IsOk());
  EXPECT_THAT((*photos)->warnings(),
              ElementsAre(AllOf(HasSubstr("images.index"), HasSubstr("made anew"))));
  EXPECT_THAT((*Open(dir, location))->warnings(), IsEmpty());
  WriteFile(dir.path() / "file", "");
  const auto unkept = Photos::Open(location, dir.path() / "file" / "x.index", BadRecord::kFail);
  ASSERT_THAT(unkept, IsOk());
  EXPECT_THAT((*unkept)->warnings(), ElementsAre(HasSubstr("not kept")));
}

TEST(Photos, AFileThatChangesLaterIsAnErrorWithItsName) {
  TempDir dir;
  const auto photos = Open(dir, Folders(dir));
  ASSERT_THAT(photos, IsOk());
  WriteFile(dir.path() / "train/apple/b.jpg", "shorter");
  fs::remove(dir.path() / "train/zebra/z1.JPEG");
  std::vector<std::byte> bytes;
  std::int64_t label = 0;
  EXPECT_THAT((*photos)->Read(1, bytes, label),
              StatusIs(Code::kBadData, AllOf(HasSubstr("b.jpg: 7 bytes"), HasSubstr("index"))));
  EXPECT_THAT((*photos)->Read(2, bytes, label), StatusIs(Code::kBadData, HasSubstr("z1.JPEG")));
  EXPECT_THAT((*photos)->Read(3, bytes, label),
              StatusIs(Code::kInvalidArgument, HasSubstr("3 of 3")));
}

TEST(Photos, FingerprintTellsSetsApartButNotPlaces) {
  TempDir one, two, three;
  const auto first = Open(one, Folders(one)), same = Open(two, Folders(two));
  EXPECT_EQ((*first)->fingerprint(), (*same)->fingerprint());
  ImageLocation other = Folders(three);
  fs::rename(three.path() / "train/apple/b.jpg", three.path() / "train/zebra/b.jpg");
  EXPECT_NE((*first)->fingerprint(), (*Open(three, other))->fingerprint());
}

TEST(ImageIndex, ReadsBackWhatWasWritten) {
  const ImageIndex index{.tar = false,
                         .classes = {"a", "b"},
                         .containers = {{"train", 0, 1}, {"train/a", 0, ~std::uint64_t{0}}},
                         .images = {{1, 1, 17, 0}, {0, 0, 0xFFFFFFFF, 2}},
                         .names = std::string("x\0yz\0", 5),
                         .bad_records = 3,
                         .first_bad = "train/a/y: bad"};
  const auto bytes = EncodeImageIndex(index);
  const auto decoded = DecodeImageIndex(bytes);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(*decoded, index);
  EXPECT_EQ(decoded->NameOf(index.images[1]), "yz");
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(DecodeImageIndex(std::span(bytes).first(cut)).ok()) << cut;
  }
}

TEST(ImageIndex, RefusesReferencesToNothing) {
  const ImageIndex good{.classes = {"a"},
                        .containers = {{"t", 9, 1}},
                        .images = {{0, 0, 4, 0}},
                        .names = std::string("n", 2)};
  const auto check = [](const ImageIndex& index) {
    return DecodeImageIndex(EncodeImageIndex(index));
  };
  EXPECT_THAT(check(good), IsOk());
  ImageIndex bad = good;
  bad.images[0].container = 1;
  EXPECT_THAT(check(bad), StatusIs(Code::kBadData, HasSubstr("outside of all files")));
  bad = good;
  bad.images[0].label = 1;
  EXPECT_THAT(check(bad), StatusIs(Code::kBadData, HasSubstr("a class")));
  bad = good;
  bad.images[0].place = 2;
  EXPECT_THAT(check(bad), StatusIs(Code::kBadData, HasSubstr("name")));
  bad = good;
  bad.names = "no";
  EXPECT_THAT(check(bad), StatusIs(Code::kBadData, HasSubstr("end")));
  bad = good;
  bad.tar = true;
  bad.images[0].place = 6;
  EXPECT_THAT(check(bad), StatusIs(Code::kBadData, HasSubstr("behind the end")));
  auto newer = EncodeImageIndex(good);
  newer[8] = std::byte{2};
  EXPECT_THAT(DecodeImageIndex(newer), StatusIs(Code::kMismatch, HasSubstr("version 2")));
}

class PhotoBatchesTest : public ::testing::Test {
 protected:
  // 12 photographs with a slope, so that every crop gives other numbers.
  PhotoBatchesTest() {
    for (unsigned i = 0; i < 12; ++i) tar_ += Member(i, Slopes(i));
  }
  static std::string Slopes(unsigned i) {
    return EncodeJpeg({.width = 70 + i, .height = 50, .pixel = [i](auto c, auto x, auto y) {
                         return static_cast<std::uint8_t>(40 * c + 2 * x + y + 5 * i);
                       }});
  }
  static std::string Member(unsigned i, const std::string& jpeg) {
    const std::string name = "s" + std::to_string(i);
    return TarFile(name + ".jpg", jpeg) + TarFile(name + ".cls", std::to_string(i));
  }
  std::shared_ptr<const Photos> Opened(BadRecord policy = BadRecord::kFail) {
    auto photos = Open(dir_, Shards(dir_, {tar_ + TarEnd()}), policy);
    EXPECT_THAT(photos, IsOk());
    return std::move(photos).value();
  }

  struct Filled {
    std::vector<float> images;
    std::vector<std::int64_t> labels;
    friend bool operator==(const Filled&, const Filled&) = default;
  };
  static Result<Filled> Fill(const PhotoBatches& batches, const std::vector<SampleRef>& samples,
                             bool training, std::uint64_t step = 0) {
    BatchBuffer buffer;
    PACELINE_TRY(batches.Fill(
        {.samples = samples, .training = training, .seed = 1, .step = Step(step)}, buffer));
    const auto images = buffer.batch.tensors[0].Floats();
    const auto labels = buffer.batch.tensors[1].Integers();
    return Filled{{images.begin(), images.end()}, {labels.begin(), labels.end()}};
  }

  TempDir dir_;
  std::string tar_;
};

TEST_F(PhotoBatchesTest, DependOnSeedStepAndPlaceAlone) {
  const PhotoBatches batches(Opened(), {.size = 16});
  const auto both = Fill(batches, {{3, 5}, {4, 6}}, true);
  ASSERT_THAT(both, IsOk());
  EXPECT_THAT(both->labels, ElementsAre(3, 4));
  const auto alone = Fill(batches, {{4, 6}}, true);
  EXPECT_TRUE(
      std::equal(alone->images.begin(), alone->images.end(), both->images.begin() + 3 * 16 * 16));
  EXPECT_NE(Fill(batches, {{4, 7}}, true)->images, alone->images);
  EXPECT_NE(Fill(batches, {{4, 6}}, true, 1)->images, alone->images);
}

TEST_F(PhotoBatchesTest, EvaluationAndNoAugmentationTakeTheMiddle) {
  const PhotoBatches batches(Opened(), {.size = 16, .normalization = kUnitRange}),
      plain(Opened(), {.size = 16, .augment = Augment::kNone, .normalization = kUnitRange});
  const auto middle = Fill(batches, {{0, 0}}, false);
  ASSERT_THAT(middle, IsOk());
  EXPECT_EQ(*Fill(batches, {{0, 9}}, false, 5), *middle);
  EXPECT_EQ(*Fill(plain, {{0, 9}}, true, 5), *middle);
  // Red at the centre of 70 x 50.
  const double centre =
      (double{middle->images[7 * 16 + 7]} + double{middle->images[8 * 16 + 8]}) / 2;
  EXPECT_NEAR(centre * 255, 2 * 34.5 + 24.5, 3);
  EXPECT_THAT(Fill(batches, {}, true), IsOk());
}

TEST_F(PhotoBatchesTest, ContentDoesNotDependOnThreads) {
  const PhotoBatches source(Opened(), {.size = 24});
  const algo::BatchPlan plan{.seed = testing::TestSeed(),
                             .dataset_size = 12,
                             .batch = 3,
                             .shards = 2,
                             .total_samples = 60};
  const auto all = [&](int threads) {
    auto loader = BatchLoader::Create(
        source, plan, {.end_shard = ShardId(2), .threads = threads, .depth = threads + 1});
    EXPECT_THAT(loader, IsOk());
    std::vector<float> values;
    for (;;) {
      const auto batch = (*loader)->Next({});
      EXPECT_THAT(batch, IsOk());
      if (!batch.ok() || *batch == nullptr) return values;
      const auto images = (*batch)->tensors[0].Floats();
      values.insert(values.end(), images.begin(), images.end());
    }
  };
  const std::vector<float> expected = all(1);
  EXPECT_EQ(expected.size(), 60U * 3 * 24 * 24);
  EXPECT_EQ(all(2), expected);
  EXPECT_EQ(all(5), expected);
}

TEST_F(PhotoBatchesTest, DamageThatOnlyDecodingShowsFailsWithItsPlaceOrIsStoodInFor) {
  const std::string whole = Slopes(0);
  const std::size_t offset = tar_.size() + 512;
  tar_ += Member(12, whole.substr(0, whole.size() / 2)) + Member(13, Slopes(13));
  const PhotoBatches strict(Opened(), {.size = 16});
  EXPECT_THAT(Fill(strict, {{12, 0}}, false),
              StatusIs(Code::kBadData,
                       AllOf(HasSubstr("shard-0.tar: byte offset " + std::to_string(offset)),
                             HasSubstr("JPEG"))));
  const PhotoBatches lenient(Opened(BadRecord::kSkip), {.size = 16, .policy = BadRecord::kSkip});
  for (int i = 0; i < 2; ++i) {
    const auto filled = Fill(lenient, {{12, 0}, {1, 1}}, false);
    ASSERT_THAT(filled, IsOk());
    EXPECT_THAT(filled->labels, ElementsAre(13, 1));
    EXPECT_EQ(lenient.BadRecords(), 1U) << "counted once";
  }
}

TEST_F(PhotoBatchesTest, NothingButDamageIsAnError) {
  tar_ = Member(0, Slopes(0).substr(0, 300));
  const PhotoBatches batches(Opened(BadRecord::kSkip), {.size = 16, .policy = BadRecord::kSkip});
  EXPECT_THAT(Fill(batches, {{0, 0}}, false),
              StatusIs(Code::kBadData, HasSubstr("one after the other")));
}

TEST_F(PhotoBatchesTest, StopWhenAsked) {
  const PhotoBatches batches(Opened(), {.size = 16});
  std::stop_source stop;
  stop.request_stop();
  BatchBuffer buffer;
  const std::vector<SampleRef> samples{{0, 0}};
  EXPECT_THAT(batches.Fill({.samples = samples, .stop = stop.get_token()}, buffer),
              StatusIs(Code::kAborted, HasSubstr("closing")));
}

}  // namespace
}  // namespace paceline::data
