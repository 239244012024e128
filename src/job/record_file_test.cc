#include "job/record_file.h"

#include <filesystem>
#include <vector>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;
using testing::WriteFile;

std::string Line(const std::string& type) { return R"({"type": ")" + type + "\"}\n"; }

struct Collected {
  std::vector<std::string> types;
  std::vector<std::uint64_t> lines, offsets;
  RecordSink Sink() {
    return [this](const Record& record) {
      types.push_back(record.type);
      lines.push_back(record.line);
      offsets.push_back(record.offset);
    };
  }
};

TEST(RecordStream, GivesTheSameRecordsHoweverTheBytesArrive) {
  const std::string text = Line("a") + "\n" + Line("bb") + R"({"type": "torn)" + Line("c");
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    Collected all;
    RecordStream stream;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      stream.Feed(std::string_view(text).substr(at, piece), all.Sink());
    }
    stream.Finish(all.Sink());
    EXPECT_THAT(all.types, ElementsAre("a", "bb", "c")) << piece;
    EXPECT_THAT(all.lines, ElementsAre(1, 3, 4));
    EXPECT_EQ(text.substr(all.offsets[2]), Line("c"));
    EXPECT_EQ(stream.damage().torn, 1U);
    EXPECT_EQ(stream.damage().first_torn_line, 4U);
  }
}

TEST(RecordStream, ALineCutOffAtTheEndIsTorn) {
  Collected all;
  RecordStream stream;
  stream.Feed(Line("a") + R"({"type": "b", "st)", all.Sink());
  EXPECT_EQ(stream.damage().torn, 0U) << "it may still be written";
  stream.Finish(all.Sink());
  EXPECT_THAT(all.types, ElementsAre("a"));
  EXPECT_EQ(stream.damage().torn, 1U);
}

TEST(RecordStream, AWholeRecordWithoutNewlineCountsAtTheEnd) {
  Collected all;
  RecordStream stream;
  stream.Feed(R"({"type": "a"})", all.Sink());
  EXPECT_THAT(all.types, IsEmpty());
  stream.Finish(all.Sink());
  EXPECT_THAT(all.types, ElementsAre("a"));
  EXPECT_EQ(stream.damage().torn, 0U);
}

TEST(RecordStream, SeveralKillsOnOneLineLeaveTheLastRecord) {
  Collected all;
  RecordStream stream;
  stream.Feed(R"({"type": "x", "a": [{"type": "y)" + Line("z"), all.Sink());
  EXPECT_THAT(all.types, ElementsAre("z"));
  EXPECT_EQ(stream.damage().torn, 1U);
}

TEST(RecordStream, MalformedRecordsAreNotTorn) {
  Collected all;
  RecordStream stream;
  stream.Feed(Line("a") + Line("step") + Line("end"), all.Sink());
  EXPECT_THAT(all.types, ElementsAre("a"));
  EXPECT_EQ(stream.damage().torn, 0U);
  EXPECT_EQ(stream.damage().malformed, 2U);
  EXPECT_EQ(stream.damage().first_malformed_line, 2U);
  EXPECT_THAT(stream.damage().first_malformed_text, HasSubstr("type step: field \"step\""));
}

TEST(RecordStream, AnEndlessLineTakesNoMemoryAndIsTorn) {
  Collected all;
  RecordStream stream;
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) stream.Feed(piece, all.Sink());
  stream.Feed("\n" + Line("a"), all.Sink());
  EXPECT_THAT(all.types, ElementsAre("a"));
  EXPECT_EQ(all.offsets[0], 40U * piece.size() + 1);
  EXPECT_EQ(stream.damage().torn, 1U);
}

TEST(RecordStream, RecentStepsAreEnoughForWhoeverSaysSo) {
  const auto steps = [](int first, int last) {
    std::string text;
    for (int i = first; i <= last; ++i) {
      text += R"({"type": "step", "samples": 1, "step": )" + std::to_string(i) + "}\n";
    }
    return text;
  };
  Collected all;
  std::vector<std::uint64_t> seen;
  const auto sink = [&](const Record& record) {
    all.Sink()(record);
    const auto* step = std::get_if<StepRecord>(&record.body);
    seen.push_back(step == nullptr ? 0 : step->step);
  };
  RecordStream stream(RecordDetail::kRecentSteps);
  stream.Feed(steps(1, 100) + Line("x") + steps(101, 102), sink);
  EXPECT_EQ(seen.size(), kRecentStepLines + 1) << "the newest may still be left out";
  EXPECT_EQ(seen.front(), 101 - kRecentStepLines);
  EXPECT_EQ(all.lines.front(), 101 - kRecentStepLines);
  stream.Deliver(sink);
  EXPECT_THAT(std::vector(seen.end() - 3, seen.end()), ElementsAre(0, 101, 102));
  stream.Feed(R"({"type": "step", "st)" + Line("y") + R"({"type": "step", "st)" + "\n", sink);
  EXPECT_EQ(all.types.back(), "y");
  EXPECT_EQ(stream.damage().torn, 2U);
}

TEST(RecordFile, ReadsOnlyWhatWasAppended) {
  const testing::TempDir dir;
  const std::string path = dir / "events.jsonl";
  RecordFile file(path);
  Collected all;
  int restarts = 0;
  const auto restart = [&] { ++restarts; };
  const auto poll = [&] {
    const auto change = file.Poll(all.Sink(), restart);
    EXPECT_THAT(change, IsOk());
    return change.ok() ? *change : RecordFile::Change::kNone;
  };
  EXPECT_EQ(poll(), RecordFile::Change::kNone) << "not there yet";
  WriteFile(path, Line("a") + "{\"type\"");
  EXPECT_EQ(poll(), RecordFile::Change::kGrown);
  EXPECT_THAT(all.types, ElementsAre("a"));
  EXPECT_EQ(poll(), RecordFile::Change::kNone);
  WriteFile(path, Line("X") + Line("b"));  // in place, the part that was read is another now
  EXPECT_EQ(poll(), RecordFile::Change::kGrown);
  EXPECT_THAT(all.types, ElementsAre("a", "b"));
  EXPECT_EQ(restarts, 0);
}

TEST(RecordFile, StartsAgainWhenTheFileIsReplacedOrCut) {
  const testing::TempDir dir;
  const std::string path = dir / "events.jsonl";
  RecordFile file(path);
  Collected all;
  int restarts = 0;
  const auto restart = [&] { ++restarts; };
  WriteFile(path, Line("a") + Line("b"));
  ASSERT_THAT(file.Poll(all.Sink(), restart), IsOk());
  WriteFile(path, Line("c"));
  ASSERT_THAT(file.Poll(all.Sink(), restart), IsOk());
  WriteFile(dir / "other", Line("d") + Line("e"));
  std::filesystem::rename(dir / "other", path);
  ASSERT_THAT(file.Poll(all.Sink(), restart), IsOk());
  EXPECT_THAT(all.types, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_EQ(restarts, 2);
}

TEST(RecordFile, ReadAllSaysWhatIsMissing) {
  const testing::TempDir dir;
  Collected all;
  EXPECT_THAT(RecordFile(dir / "no").ReadAll(all.Sink()),
              StatusIs(Code::kNotFound, HasSubstr("there is no")));
  EXPECT_THAT(RecordFile(dir.path().string()).ReadAll(all.Sink()),
              StatusIs(Code::kDisk, HasSubstr("Is a directory")));
}

TEST(ReadPiece, ReadsExactlyThePieceOrFails) {
  const testing::TempDir dir;
  WriteFile(dir / "file", "0123456789");
  EXPECT_EQ(ReadPiece(dir / "file", 3, 4).value(), "3456");
  EXPECT_THAT(ReadPiece(dir / "file", 8, 4), StatusIs(Code::kDisk, HasSubstr("shorter")));
  EXPECT_THAT(ReadPiece(dir / "none", 0, 1), StatusIs(Code::kDisk, HasSubstr("No such file")));
}

}  // namespace
}  // namespace paceline::job
