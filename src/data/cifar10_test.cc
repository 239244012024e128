#include "data/cifar10.h"

#include <sys/stat.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::paceline::testing::TempDir;
using ::paceline::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Records with label r % 10; every pixel of record r is (r + salt) % 256, the last one r % 251.
std::string Records(std::size_t count, unsigned salt = 0) {
  std::string bytes;
  for (std::size_t r = 0; r < count; ++r) {
    bytes.push_back(static_cast<char>(r % 10));
    bytes.append(kCifarPixels - 1, static_cast<char>((r + salt) % 256));
    bytes.push_back(static_cast<char>(r % 251));
  }
  return bytes;
}

std::string WithByte(std::string bytes, std::size_t offset, int value) {
  bytes.at(offset) = static_cast<char>(value);
  return bytes;
}

// Five training files of 1, 2, 3, 4 and 5 records.
void WriteTrain(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (unsigned i = 1; i <= 5; ++i) {
    WriteFile(folder / ("data_batch_" + std::to_string(i) + ".bin"), Records(i, 10 * i));
  }
}

Result<std::unique_ptr<Cifar10>> OpenTest(const TempDir& dir, const std::string& content,
                                          BadRecord policy) {
  WriteFile(dir.path() / "test_batch.bin", content);
  return Cifar10::Open(dir.path(), Split::kTest, policy);
}

struct CifarSample {
  std::vector<std::uint8_t> image = std::vector<std::uint8_t>(kCifarPixels);
  std::int64_t label = -1;
};

CifarSample ReadOk(const Dataset& dataset, std::uint64_t index) {
  CifarSample sample;
  EXPECT_THAT(dataset.Read(index, sample.image, sample.label), IsOk());
  return sample;
}

TEST(Cifar10, ReadsTheTrainingFilesInOrder) {
  for (const char* inner : {"", "cifar-10-batches-bin"}) {
    TempDir dir;
    WriteTrain(dir.path() / inner);
    const auto dataset = Cifar10::Open(dir.path(), Split::kTrain, BadRecord::kFail);
    ASSERT_THAT(dataset, IsOk());
    EXPECT_EQ((*dataset)->size(), 15U);
    EXPECT_EQ((*dataset)->classes(), 10);
    std::uint64_t index = 0;
    for (std::size_t file = 1; file <= 5; ++file) {
      for (std::size_t r = 0; r < file; ++r, ++index) {
        const CifarSample sample = ReadOk(**dataset, index);
        EXPECT_EQ(sample.label, static_cast<std::int64_t>(r));
        EXPECT_EQ(sample.image.front(), r + 10 * file);
        EXPECT_EQ(sample.image.back(), r);
      }
    }
  }
}

TEST(Cifar10, ReadChecksItsArguments) {
  TempDir dir;
  const auto dataset = OpenTest(dir, Records(3), BadRecord::kFail);
  ASSERT_THAT(dataset, IsOk());
  CifarSample sample;
  EXPECT_THAT((*dataset)->Read(3, sample.image, sample.label),
              StatusIs(Code::kInvalidArgument, HasSubstr("sample 3 of 3")));
  sample.image.pop_back();
  EXPECT_THAT((*dataset)->Read(0, sample.image, sample.label),
              StatusIs(Code::kInvalidArgument, HasSubstr("3071")));
}

TEST(Cifar10, NamesWhatIsMissing) {
  TempDir dir;
  EXPECT_THAT(Cifar10::Open(dir.path() / "nowhere", Split::kTest, BadRecord::kFail),
              StatusIs(Code::kBadData, HasSubstr("nowhere: no such folder")));
  WriteTrain(dir.path());
  std::filesystem::remove(dir.path() / "data_batch_4.bin");
  EXPECT_THAT(
      Cifar10::Open(dir.path(), Split::kTrain, BadRecord::kSkip),
      StatusIs(Code::kBadData, AllOf(HasSubstr("data_batch_4.bin"), HasSubstr("No such file"))));
}

TEST(Cifar10, RefusesWhatIsNotAFileWithContent) {
  TempDir dir;
  EXPECT_THAT(OpenTest(dir, "", BadRecord::kSkip),
              StatusIs(Code::kBadData, HasSubstr("test_batch.bin: is empty")));
  const std::filesystem::path path = dir.path() / "test_batch.bin";
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(Cifar10::Open(dir.path(), Split::kTest, BadRecord::kFail),
              StatusIs(Code::kBadData, HasSubstr("not a regular file")));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(Cifar10::Open(dir.path(), Split::kTest, BadRecord::kFail),
              StatusIs(Code::kBadData, HasSubstr("not a regular file")));
}

TEST(Cifar10, FailsOnATruncatedFileWithFileRecordAndOffset) {
  TempDir dir;
  std::string bytes = Records(250);  // more than one chunk of the scan
  bytes.pop_back();
  EXPECT_THAT(
      OpenTest(dir, bytes, BadRecord::kFail),
      StatusIs(Code::kBadData, AllOf(HasSubstr("test_batch.bin: record 249 at byte offset 765177"),
                                     HasSubstr("cut after 3072 of 3073 bytes"))));
  EXPECT_THAT(OpenTest(dir, "x", BadRecord::kFail),
              StatusIs(Code::kBadData, HasSubstr("record 0 at byte offset 0")));
}

TEST(Cifar10, FailsOnABadLabelWithFileRecordAndOffset) {
  TempDir dir;
  EXPECT_THAT(OpenTest(dir, WithByte(Records(250), 123 * 3073, 200), BadRecord::kFail),
              StatusIs(Code::kBadData,
                       HasSubstr("record 123 at byte offset 377979: label 200 is above 9")));
}

TEST(Cifar10, SkipLeavesBadRecordsOutAndCountsThem) {
  TempDir dir;
  std::string bytes = Records(250);
  for (std::size_t bad : {0U, 1U, 123U, 249U}) bytes = WithByte(bytes, bad * 3073, 10);
  bytes += "part of a record";
  const auto dataset = OpenTest(dir, bytes, BadRecord::kSkip);
  ASSERT_THAT(dataset, IsOk());
  EXPECT_EQ((*dataset)->size(), 246U);
  EXPECT_EQ((*dataset)->BadRecords(), 5U);
  EXPECT_THAT((*dataset)->warnings(),
              ElementsAre(HasSubstr("768266 bytes"), HasSubstr("5 bad records left out")));
  std::uint64_t index = 0;
  for (std::size_t r = 0; r < 250; ++r) {
    if (r == 0 || r == 1 || r == 123 || r == 249) continue;
    EXPECT_EQ(ReadOk(**dataset, index++).image.front(), r);
  }
}

TEST(Cifar10, SkipCountsAcrossFiles) {
  TempDir dir;
  WriteTrain(dir.path());
  WriteFile(dir.path() / "data_batch_1.bin", WithByte(Records(1), 0, 255));
  WriteFile(dir.path() / "data_batch_3.bin", WithByte(Records(3, 30), 2 * 3073, 255));
  const auto dataset = Cifar10::Open(dir.path(), Split::kTrain, BadRecord::kSkip);
  ASSERT_THAT(dataset, IsOk());
  EXPECT_EQ((*dataset)->size(), 13U);
  EXPECT_EQ(ReadOk(**dataset, 0).image.front(), 20);
  EXPECT_EQ(ReadOk(**dataset, 3).image.front(), 31);
  EXPECT_EQ(ReadOk(**dataset, 4).image.front(), 40);
  EXPECT_EQ(ReadOk(**dataset, 12).image.front(), 54);
}

TEST(Cifar10, RefusesADataSetWithoutAnyGoodRecord) {
  TempDir dir;
  EXPECT_THAT(OpenTest(dir, WithByte(Records(1), 0, 10), BadRecord::kSkip),
              StatusIs(Code::kBadData, HasSubstr("no usable record")));
}

TEST(Cifar10, FullSizeNeedsNoWarning) {
  TempDir dir;
  const auto dataset = OpenTest(dir, Records(10'000), BadRecord::kFail);
  ASSERT_THAT(dataset, IsOk());
  EXPECT_EQ((*dataset)->size(), 10'000U);
  EXPECT_THAT((*dataset)->warnings(), IsEmpty());
  EXPECT_EQ(ReadOk(**dataset, 9999).label, 9);
}

TEST(Cifar10, AFileThatShrinksOrSpoilsIsAnErrorNotACrash) {
  TempDir dir;
  const auto dataset = OpenTest(dir, Records(3), BadRecord::kFail);
  ASSERT_THAT(dataset, IsOk());
  std::filesystem::resize_file(dir.path() / "test_batch.bin", 2 * 3073 + 5);
  CifarSample sample;
  EXPECT_THAT(
      (*dataset)->Read(2, sample.image, sample.label),
      StatusIs(Code::kBadData, AllOf(HasSubstr("test_batch.bin"), HasSubstr("byte offset 6151"))));
  WriteFile(dir.path() / "test_batch.bin", WithByte(Records(3), 3073, 77));
  EXPECT_THAT((*dataset)->Read(1, sample.image, sample.label),
              StatusIs(Code::kBadData, HasSubstr("record 1 at byte offset 3073: label 77")));
}

TEST(Cifar10, FingerprintTellsContentsApartButNotFolders) {
  const auto fingerprint = [](const std::string& bytes) {
    TempDir dir;
    const auto dataset = OpenTest(dir, bytes, BadRecord::kSkip);
    EXPECT_THAT(dataset, IsOk());
    return (*dataset)->Fingerprint();
  };
  const std::string same = fingerprint(Records(50));
  EXPECT_EQ(fingerprint(Records(50)), same);
  EXPECT_THAT(same, HasSubstr("test_batch.bin:153650:"));
  EXPECT_NE(fingerprint(Records(51)), same);
  EXPECT_NE(fingerprint(WithByte(Records(50), 1, 99)), same);
  EXPECT_NE(fingerprint(WithByte(Records(50), 153'649, 99)), same);
}

TEST(Cifar10Decode, RefusesWrongSizesAndLabels) {
  const std::string record = Records(1), bad = WithByte(Records(1), 0, 10);
  CifarSample sample;
  const auto decode = [&](std::string_view bytes) {
    return DecodeCifar10(std::as_bytes(std::span(bytes)), sample.image, sample.label);
  };
  EXPECT_THAT(decode(record), IsOk());
  EXPECT_THAT(decode(""), StatusIs(Code::kBadData, HasSubstr("0 bytes")));
  EXPECT_THAT(decode(record + "x"), StatusIs(Code::kBadData, HasSubstr("3074 bytes")));
  EXPECT_THAT(decode(bad), StatusIs(Code::kBadData, HasSubstr("label 10")));
}

TEST(Cifar10Scan, HandlesNothingAndLessThanARecord) {
  EXPECT_EQ(ScanCifar10({}).records, 0U);
  const std::string bytes = Records(1).substr(0, 3072);
  EXPECT_EQ(ScanCifar10(std::as_bytes(std::span(bytes))).trailing_bytes, 3072U);
}

}  // namespace
}  // namespace paceline::data
