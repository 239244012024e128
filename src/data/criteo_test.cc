#include "data/criteo.h"

#include <filesystem>
#include <string>
#include <thread>
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
using ::testing::Not;

// A line whose first integer is `mark` and whose other features are missing.
std::string Line(int mark, const std::string& label = "0") {
  return label + "\t" + std::to_string(mark) + std::string(kCriteoFields - 2, '\t') + "\n";
}

CtrSample Decoded(const std::string& line) {
  CtrSample sample;
  EXPECT_THAT(DecodeCriteo(line, sample), IsOk());
  return sample;
}

// The mark of the line that a sample came from.
float Mark(const CtrDataset& dataset, std::uint64_t index) {
  CtrSample sample;
  EXPECT_THAT(dataset.Read(index, sample), IsOk());
  return sample.dense[0] * 20;
}

// The first two are in many a Python 2 session on the net; the others were made with the same
// definition (Objects/stringobject.c, string_hash) in Python 3.
TEST(Criteo, HashIsThatOfPython2) {
  EXPECT_EQ(Python2Hash("a"), 12416037344);
  EXPECT_EQ(Python2Hash("hello"), 840651671246116861);
  EXPECT_EQ(Python2Hash(""), 0);
  EXPECT_EQ(Python2Hash("1405db9164"), -1382033665952546526);
}

TEST(Criteo, DecodesALineAsTheReferenceDoes) {
  std::string line = "1\t5\t600\t\t-1";
  line += std::string(kCtrDense - 4, '\t') + "\t05db9164" + std::string(kCtrSlots - 1, '\t');
  const CtrSample sample = Decoded(line);
  EXPECT_EQ(sample.label, 1);
  EXPECT_FLOAT_EQ(sample.dense[0], 5.0F / 20);
  EXPECT_FLOAT_EQ(sample.dense[1], 1.0F);  // (600 + 3) / 603
  EXPECT_EQ(sample.dense[2], 0.0F);
  EXPECT_FLOAT_EQ(sample.dense[3], -1.0F / 50);
  EXPECT_EQ(sample.ids[0], 737395U);
  // A missing category is one of its own in each slot.
  EXPECT_EQ(sample.ids[1], static_cast<std::uint32_t>(Python2Hash("15") % kCtrIds));
  EXPECT_NE(sample.ids[1], sample.ids[2]);
  CtrSample small;  // of a model with fewer rows
  ASSERT_THAT(DecodeCriteo(line, small, 1001), IsOk());
  EXPECT_EQ(small.ids[0],
            static_cast<std::uint32_t>((Python2Hash("1405db9164") % 1001 + 1001) % 1001));
  EXPECT_EQ(small.dense, sample.dense);
}

TEST(Criteo, NamesWhatIsWrongWithALine) {
  const std::string rest(kCriteoFields - 2, '\t');
  CtrSample sample;
  EXPECT_THAT(DecodeCriteo("", sample), StatusIs(Code::kBadData, HasSubstr("1 fields instead")));
  EXPECT_THAT(DecodeCriteo("0\t" + rest + "\t", sample),
              StatusIs(Code::kBadData, HasSubstr("41 fields instead of 40")));
  EXPECT_THAT(DecodeCriteo("2\t" + rest, sample), StatusIs(Code::kBadData, HasSubstr("label '2'")));
  EXPECT_THAT(DecodeCriteo("\t" + rest, sample), StatusIs(Code::kBadData, HasSubstr("label ''")));
  for (const char* number : {"1.5", "x", "-", " 1", "99999999999999999999"}) {
    EXPECT_THAT(DecodeCriteo("0\t" + std::string(number) + rest, sample),
                StatusIs(Code::kBadData, HasSubstr("field 2 is not an integer")));
  }
  for (const char* category : {"05DB9164", "g", "123456789", "1\r"}) {
    EXPECT_THAT(DecodeCriteo("0\t" + rest + category, sample),
                StatusIs(Code::kBadData, HasSubstr("field 40 is not up to 8 hex")));
  }
}

TEST(Criteo, ReadsTheFilesOfAFolderInOrderOfName) {
  TempDir dir;
  WriteFile(dir.path() / "part-1", Line(3) + Line(4, "1"));
  WriteFile(dir.path() / "part-0", Line(0) + Line(1) + Line(2));
  WriteFile(dir.path() / ".hidden", "not data");
  const auto dataset = Criteo::Open(dir.path(), BadRecord::kFail);
  ASSERT_THAT(dataset, IsOk());
  ASSERT_EQ((*dataset)->size(), 5U);
  for (std::uint64_t i : {4U, 0U, 2U, 3U, 1U}) {
    EXPECT_FLOAT_EQ(Mark(**dataset, i), static_cast<float>(i));
  }
  EXPECT_THAT((*dataset)->warnings(), IsEmpty());
  CtrSample sample;
  EXPECT_THAT((*dataset)->Read(4, sample), IsOk());
  EXPECT_EQ(sample.label, 1);
  EXPECT_THAT((*dataset)->Read(5, sample), StatusIs(Code::kInvalidArgument, HasSubstr("5 of 5")));
}

TEST(Criteo, LastLineMayLackItsEnd) {
  TempDir dir;
  std::string text = Line(0) + Line(1);
  text.pop_back();
  WriteFile(dir.path() / "train.txt", text);
  const auto dataset = Criteo::Open(dir.path() / "train.txt", BadRecord::kFail);
  ASSERT_THAT(dataset, IsOk());
  EXPECT_EQ((*dataset)->size(), 2U);
  EXPECT_FLOAT_EQ(Mark(**dataset, 1), 1);
}

// Lines that lie across the border of two chunks of the scan.
TEST(Criteo, FindsEveryLineOfALongFile) {
  TempDir dir;
  std::string text;
  constexpr int kLines = 60'000;  // 2.7 MB
  for (int i = 0; i < kLines; ++i) text += Line(i);
  WriteFile(dir.path() / "train.txt", text);
  const auto dataset = Criteo::Open(dir.path(), BadRecord::kFail);
  ASSERT_THAT(dataset, IsOk());
  ASSERT_EQ((*dataset)->size(), static_cast<std::uint64_t>(kLines));
  for (int i = 0; i < kLines; i += 7) {
    ASSERT_NEAR(Mark(**dataset, static_cast<std::uint64_t>(i)), i, 0.01);
  }
}

TEST(Criteo, CorruptLinesAreRefusedByFileLineAndOffset) {
  TempDir dir;
  WriteFile(dir.path() / "a", Line(0));
  WriteFile(dir.path() / "b", Line(1) + "0\t1\n" + Line(2));
  EXPECT_THAT(
      Criteo::Open(dir.path(), BadRecord::kFail),
      StatusIs(Code::kBadData, AllOf(HasSubstr(dir / "b"), HasSubstr("line 2 at byte offset 42"),
                                     HasSubstr("2 fields instead of 40"))));
}

TEST(Criteo, CorruptLinesAreLeftOutAndCounted) {
  TempDir dir;
  const std::string endless((3 << 20) + 17, 'x');
  WriteFile(dir.path() / "train.txt",
            "\n" + Line(0) + Line(7, "9") + Line(1) + endless + "\n" + Line(2) + "0\t1");
  const auto dataset = Criteo::Open(dir.path(), BadRecord::kSkip);
  ASSERT_THAT(dataset, IsOk());
  ASSERT_EQ((*dataset)->size(), 3U);
  EXPECT_EQ((*dataset)->BadRecords(), 4U);
  EXPECT_THAT((*dataset)->warnings(), ElementsAre(HasSubstr("4 bad lines left out")));
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(Mark(**dataset, i), static_cast<float>(i));
}

TEST(Criteo, MessagesAboutBinaryTextAreShortAndPrintable) {
  TempDir dir;
  WriteFile(dir.path() / "train.txt",
            "\x01\x02" + std::string(200, '\x03') + std::string(kCriteoFields - 1, '\t') + "\n");
  EXPECT_THAT(Criteo::Open(dir.path(), BadRecord::kFail),
              StatusIs(Code::kBadData, AllOf(HasSubstr("label '?????"), Not(HasSubstr("\x03")))));
}

TEST(Criteo, NothingUsableIsRefused) {
  TempDir dir;
  EXPECT_THAT(Criteo::Open(dir.path(), BadRecord::kSkip),
              StatusIs(Code::kBadData, HasSubstr("no file")));
  EXPECT_THAT(Criteo::Open(dir.path() / "missing", BadRecord::kSkip),
              StatusIs(Code::kBadData, HasSubstr("cannot be opened")));
  WriteFile(dir.path() / "train.txt", "x\n");
  EXPECT_THAT(Criteo::Open(dir.path(), BadRecord::kSkip),
              StatusIs(Code::kBadData, HasSubstr("no usable line")));
}

TEST(Criteo, AFileThatShrinksOrChangesIsAnError) {
  TempDir dir;
  WriteFile(dir.path() / "train.txt", Line(0) + Line(1));
  const auto dataset = Criteo::Open(dir.path(), BadRecord::kFail);
  ASSERT_THAT(dataset, IsOk());
  CtrSample sample;
  std::filesystem::resize_file(dir.path() / "train.txt", 50);
  EXPECT_THAT((*dataset)->Read(1, sample), StatusIs(Code::kBadData, HasSubstr("has shrunk")));
  WriteFile(dir.path() / "train.txt", std::string(84, 'x'));
  EXPECT_THAT(
      (*dataset)->Read(1, sample),
      StatusIs(Code::kBadData, AllOf(HasSubstr("byte offset 42"), HasSubstr("good when opened"))));
}

TEST(Criteo, FingerprintTellsContentApart) {
  TempDir dir;
  WriteFile(dir.path() / "train.txt", Line(0) + Line(1));
  const auto first = Criteo::Open(dir.path(), BadRecord::kFail);
  WriteFile(dir.path() / "train.txt", Line(0) + Line(2));
  const auto second = Criteo::Open(dir.path(), BadRecord::kFail);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_NE((*first)->Fingerprint(), (*second)->Fingerprint());
  EXPECT_THAT((*first)->Fingerprint(), HasSubstr("records:2"));
}

}  // namespace
}  // namespace paceline::data
