#include "data/word_questions.h"

#include <string>

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
using ::testing::HasSubstr;

// man 1, woman 2, king 3, queen 4, by falling count.
Vocabulary Royals() {
  return Vocabulary({{"man", 9}, {"woman", 8}, {"king", 7}, {"queen", 6}, {"rare", 1}}, 1);
}

TEST(Analogies, AreReadWithHeadingsAndWithoutUnknownWords) {
  const TempDir folder;
  WriteFile(folder / "q",
            ": family\nMan woman king queen\r\nman woman king rare\n\nking queen man woman");
  const auto read = ReadAnalogies(folder / "q", Royals());
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->known.size(), 2U);
  EXPECT_EQ(read->left_out, 1U);
  EXPECT_EQ(read->known[0].a, 1);
  EXPECT_EQ(read->known[0].b, 2);
  EXPECT_EQ(read->known[0].c, 3);
  EXPECT_EQ(read->known[0].d, 4);
  EXPECT_EQ(read->known[1].a, 3);
}

TEST(Analogies, BadLinesAreNamed) {
  const TempDir folder;
  WriteFile(folder / "q", ": family\nman woman king\n");
  EXPECT_THAT(ReadAnalogies(folder / "q", Royals()),
              StatusIs(Code::kBadData, AllOf(HasSubstr("q: line 2"), HasSubstr("four words"))));
  EXPECT_THAT(ReadAnalogies(folder / "none", Royals()),
              StatusIs(Code::kBadData, HasSubstr("none")));
  EXPECT_THAT(ReadAnalogies(folder.path(), Royals()), StatusIs(Code::kBadData, HasSubstr("read")));
}

TEST(Similarities, AreReadWithTabsCommasAndAHeading) {
  const TempDir folder;
  WriteFile(folder / "s",
            "Word 1,Word 2,Human (mean)\n# comment\nKing\tqueen\t8.5\nman,woman,8.25\n"
            "man rare 1\n");
  const auto read = ReadSimilarities(folder / "s", Royals());
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->known.size(), 2U);
  EXPECT_EQ(read->left_out, 1U);
  EXPECT_EQ(read->known[0].first, 3);
  EXPECT_EQ(read->known[0].second, 4);
  EXPECT_EQ(read->known[0].similarity, 8.5F);
  EXPECT_EQ(read->known[1].similarity, 8.25F);
}

TEST(Similarities, BadLinesAreNamed) {
  const TempDir folder;
  WriteFile(folder / "s", "man woman 1\nman woman many\n");
  EXPECT_THAT(ReadSimilarities(folder / "s", Royals()),
              StatusIs(Code::kBadData, AllOf(HasSubstr("s: line 2"), HasSubstr("a number"))));
}

}  // namespace
}  // namespace paceline::data
