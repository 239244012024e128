// Every kind of data file, as a user trains on it: alone, with two workers to the same parameters,
// and with one bad record.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "data/image_test_util.h"
#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kData = 12;

struct Training {
  std::string model;
  std::string data;
  std::vector<std::string> flags;
};

CommandResult Train(const Training& training, const std::string& run,
                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{
      "train", training.model, "--data", training.data, "--run", run,      "--steps",
      "2",     "--shards",     "2",      "--batch",     "1",     "--json", "--reproducible"};
  arguments.insert(arguments.end(), training.flags.begin(), training.flags.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunPaceline(arguments);
}

// The second training finds what the first one has kept beside the data. Returns what the first one
// has printed.
CommandResult ExpectTrains(const Training& training, const TempDir& dir) {
  CommandResult alone = Train(training, dir / "alone");
  const std::string expected = HashOf(alone);
  EXPECT_EQ(HashOf(Train(training, dir / "two", {"--workers", "2"})), expected);
  EXPECT_EQ(LastJson(alone.out)["steps"], 2);
  EXPECT_EQ(LastJson(alone.out)["bad_records"], 0);
  return alone;
}

// What the bad record is and where it lies is said, in one line; without it training goes on.
void ExpectBad(const Training& training, const TempDir& dir, const std::string& place) {
  ExpectError(Train(training, dir / "fails"), kData, place);
  const CommandResult skipped = Train(training, dir / "skips", {"--bad-record", "skip"});
  ASSERT_EQ(skipped.state.code, 0) << skipped.err;
  EXPECT_EQ(LastJson(skipped.out)["bad_records"], 1);
}

void Put(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  WriteFile(path, content);
}

std::string Photo(std::size_t number) {
  return data::EncodeJpeg({.width = 40 + number,
                           .height = 48,
                           .pixel = [=](std::size_t c, std::size_t x, std::size_t y) {
                             return static_cast<std::uint8_t>(x * 3 + y * 2 + (c + number) * 50);
                           }});
}

std::string Sample(std::size_t number) {
  const std::string name = "shard/" + std::to_string(number);
  return data::TarFile(name + ".jpg", Photo(number)) +
         data::TarFile(name + ".cls", std::to_string(number % 2));
}

void PutPhotoFolders(const fs::path& folder) {
  for (std::size_t i = 0; i < 6; ++i) {
    const std::string name = (i % 2 == 0 ? "cat/" : "dog/") + std::to_string(i) + ".jpg";
    Put(folder / (i < 4 ? "train" : "val") / name, Photo(i));
  }
}

TEST(DataFiles, FoldersOfJpegFilesTrain) {
  const TempDir dir;
  PutPhotoFolders(dir / "data");
  const CommandResult result =
      ExpectTrains({.model = "mobilenet-v2-small", .data = dir / "data"}, dir);
  EXPECT_THAT(result.err, HasSubstr("has 2 classes, the model 10"));
  EXPECT_EQ(LastJson(result.out)["eval_samples"], 2);
  EXPECT_TRUE(fs::exists(dir / "data/.paceline/train.index"));
}

// Cut behind its header it is found by decoding: in the first step, which has all four.
TEST(DataFiles, AJpegFileThatIsCutIsNamed) {
  const TempDir dir;
  PutPhotoFolders(dir / "data");
  const std::string bad = dir / "data/train/dog/1.jpg";
  fs::resize_file(bad, fs::file_size(bad) / 2);
  ExpectBad({.model = "mobilenet-v2-small", .data = dir / "data", .flags = {"--batch", "2"}}, dir,
            bad + ": byte offset 0: not a whole JPEG");
}

TEST(DataFiles, TarShardsTrain) {
  const TempDir dir;
  for (std::size_t shard = 0; shard < 2; ++shard) {
    Put(dir / ("data/photos-train-" + std::to_string(shard) + ".tar"),
        Sample(2 * shard) + Sample(2 * shard + 1) + data::TarEnd());
  }
  Put(dir / "data/photos-val-0.tar", Sample(4) + data::TarEnd());
  const CommandResult result =
      ExpectTrains({.model = "image-compression-small", .data = dir / "data"}, dir);
  EXPECT_EQ(LastJson(result.out)["eval_samples"], 1);
  EXPECT_TRUE(fs::exists(dir / "data/.paceline/train.index"));
}

TEST(DataFiles, ATarShardThatIsCutIsNamed) {
  const TempDir dir;
  const std::string good = Sample(0) + Sample(1);
  Put(dir / "data/train/0.tar", (good + Sample(2)).substr(0, good.size() + 700));
  Put(dir / "data/val/0.tar", Sample(4) + data::TarEnd());
  ExpectBad({.model = "vgg16-small", .data = dir / "data"}, dir,
            dir / "data/train/0.tar" + ": tar header at byte offset " +
                std::to_string(good.size()) + ": ");
}

void PutParallelText(const fs::path& folder) {
  std::string source, target;
  for (int i = 0; i < 40; ++i) {
    const std::string number = std::to_string(i * 37 % 40);
    source += "the house number " + number + " is old\n";
    target += "das Haus Nummer " + number + " ist für alle alt.\n";
  }
  Put(folder / "train.en", source);
  Put(folder / "train.de", target);
  Put(folder / "valid.en", "the house number 7 is old\nthe old house\n");
  Put(folder / "valid.de", "das Haus Nummer 7 ist alt\ndas alte Haus\n");
}

Training Translating(const TempDir& dir) {
  return {.model = "transformer-small",
          .data = dir / "data",
          .flags = {"--languages", "en-de", "--batch-tokens", "64"}};
}

fs::path LearntVocabulary(const fs::path& folder) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder / ".paceline")) {
    if (entry.path().extension() == ".vocab") found = entry.path();
  }
  return found;
}

TEST(DataFiles, ParallelTextTrainsWithALearntVocabulary) {
  const TempDir dir;
  PutParallelText(dir / "data");
  const CommandResult result = ExpectTrains(Translating(dir), dir);
  EXPECT_THAT(result.err, HasSubstr("learnt"));
  EXPECT_EQ(LastJson(result.out)["eval_samples"], 2);
  EXPECT_TRUE(LastJson(result.out)["metrics"]["bleu"].is_number());
  const CommandResult given =
      Train(Translating(dir), dir / "given", {"--vocab", LearntVocabulary(dir / "data")});
  EXPECT_EQ(HashOf(given), HashOf(result));
  EXPECT_THAT(given.err, Not(HasSubstr("learnt")));
}

TEST(DataFiles, ALineOfParallelTextThatIsNotUtf8IsNamed) {
  const TempDir dir;
  PutParallelText(dir / "data");
  const std::string path = dir / "data/train.de";
  std::string text = ReadFile(path);
  const std::size_t second = text.find('\n') + 1;
  text[second + 4] = '\xff';
  WriteFile(path, text);
  ExpectBad(Translating(dir), dir,
            path + ": line 2, byte offset " + std::to_string(second) +
                ": byte 4 of the line is not UTF-8");
}

TEST(DataFiles, ParallelTextThatIsCutIsNamed) {
  const TempDir dir;
  PutParallelText(dir / "data");
  const std::string path = dir / "data/train.de";
  fs::resize_file(path, ReadFile(path).rfind("das Haus"));
  ExpectError(Train(Translating(dir), dir / "run"), kData, "train.en: line 40, byte offset ");
}

std::string Documents() {
  std::string text;
  for (const char* animal : {"dog", "cat", "horse", "bird", "cow", "sheep"}) {
    for (const char* verb : {"sleeps", "eats", "runs", "sees the man", "knows the way"}) {
      text += std::string("the ") + animal + " " + verb + " every day\n";
    }
    text += '\n';
  }
  return text;
}

TEST(DataFiles, PlainTextTrainsWithALearntVocabulary) {
  const TempDir dir;
  Put(dir / "data/train.txt", Documents());
  Put(dir / "data/valid.txt", Documents());
  const CommandResult result = ExpectTrains({.model = "bert-small", .data = dir / "data"}, dir);
  EXPECT_THAT(result.err, HasSubstr("learnt"));
  EXPECT_TRUE(LastJson(result.out)["metrics"]["nsp_accuracy"].is_number());
  EXPECT_FALSE(LearntVocabulary(dir / "data").empty());
}

TEST(DataFiles, ALineOfPlainTextThatIsNotUtf8IsNamed) {
  const TempDir dir;
  std::string text = Documents();
  const std::size_t second = text.find('\n') + 1;
  text[second + 4] = '\xff';
  Put(dir / "data/train.txt", text);
  Put(dir / "data/valid.txt", Documents());
  ExpectBad({.model = "bert-small", .data = dir / "data"}, dir,
            dir / "data/train.txt" + ": line 2, byte offset " + std::to_string(second) +
                ": byte 4 of the line is not UTF-8");
}

}  // namespace
}  // namespace paceline::testing
