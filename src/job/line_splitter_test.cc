#include "job/line_splitter.h"

#include <gmock/gmock.h>

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(LineSplitter, OnlyWholeLinesComeOut) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Feed(""), IsEmpty());
  EXPECT_THAT(splitter.Feed("on"), IsEmpty());
  EXPECT_THAT(splitter.Feed("e\ntwo\nth"), ElementsAre("one", "two"));
  EXPECT_THAT(splitter.Feed("ree\n\n"), ElementsAre("three", ""));
  EXPECT_EQ(splitter.Finish(), std::nullopt);
}

TEST(LineSplitter, TheSameLinesHoweverTheBytesArrive) {
  const std::string text = "a\nbb\r\n\nccc\r\rd\ne";
  for (std::size_t cut = 1; cut <= text.size(); ++cut) {
    LineSplitter splitter;
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size(); at += cut) {
      for (std::string& line : splitter.Feed(text.substr(at, cut))) lines.push_back(line);
    }
    EXPECT_THAT(lines, ElementsAre("a", "bb", "", "ccc\r\rd")) << cut;
    EXPECT_EQ(splitter.Finish(), "e");
    EXPECT_EQ(splitter.Finish(), std::nullopt);
  }
}

TEST(LineSplitter, AnEndlessLineComesInPieces) {
  LineSplitter splitter;
  const auto lines = splitter.Feed(std::string(2 * kMaxLineBytes + 3, 'x'));
  EXPECT_THAT(lines, ElementsAre(SizeIs(kMaxLineBytes), SizeIs(kMaxLineBytes)));
  EXPECT_EQ(splitter.Finish(), "xxx");
  EXPECT_THAT(splitter.Feed(std::string(kMaxLineBytes, 'y') + "\nz\n"),
              ElementsAre(SizeIs(kMaxLineBytes), "z"));
}

TEST(PrefixLine, NamesTheWorker) {
  EXPECT_EQ(PrefixLine("w1", "hello"), "[w1] hello\n");
  EXPECT_EQ(PrefixLine("", "hello"), "hello\n");
  EXPECT_EQ(PrefixLine("w1@node2", ""), "[w1@node2] \n");
}

TEST(LastError, IsTheLastLineThatSpeaksOfOne) {
  LastError last;
  EXPECT_EQ(last.Text(), "");
  last.Observe("loading");
  EXPECT_EQ(last.Text(), "loading");
  last.Observe("paceline-worker: error: no data");
  last.Observe("bye");
  EXPECT_EQ(last.Text(), "paceline-worker: error: no data");
  last.Observe("E20261115 21:40:00.123456 1 a.cc:1] broken");
  EXPECT_EQ(last.Text(), "E20261115 21:40:00.123456 1 a.cc:1] broken");
  last.Observe("RuntimeERROR");
  EXPECT_EQ(last.Text(), "RuntimeERROR");
}

TEST(LastError, IsShortAndPrintable) {
  LastError last;
  last.Observe("a\tb\x1b[31m");
  EXPECT_EQ(last.Text(), "a b [31m");
  last.Observe(" \t");
  EXPECT_EQ(last.Text(), "a b [31m");
  last.Observe(std::string(5000, 'x'));
  EXPECT_THAT(last.Text(), SizeIs(500));
}

}  // namespace
}  // namespace paceline::job
