#include "data/mteval_words.h"

#include <gmock/gmock.h>

namespace paceline::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MtevalWords, SignsAreWordsOfTheirOwn) {
  EXPECT_THAT(MtevalWords("The dog (bit) the man."),
              ElementsAre("The", "dog", "(", "bit", ")", "the", "man", "."));
  EXPECT_THAT(MtevalWords("a/b: \"50%\", x_y!"),
              ElementsAre("a", "/", "b", ":", "\"", "50", "%", "\"", ",", "x", "_", "y", "!"));
}

TEST(MtevalWords, ApostrophesAndDashesStayInWords) {
  EXPECT_THAT(MtevalWords("it wasn't well-known"), ElementsAre("it", "wasn't", "well-known"));
  EXPECT_THAT(MtevalWords("1990-95"), ElementsAre("1990", "-", "95"));
}

TEST(MtevalWords, StopsBetweenDigitsStay) {
  EXPECT_THAT(MtevalWords("3.5 or 1,000."), ElementsAre("3.5", "or", "1,000", "."));
  EXPECT_THAT(MtevalWords("page 7, U.S. no.5"),
              ElementsAre("page", "7", ",", "U", ".", "S", ".", "no", ".", "5"));
  EXPECT_THAT(MtevalWords("..."), ElementsAre(".", ".", "."));
}

// The comma's neighbour is the stop of the pair before: so do the script's expressions.
TEST(MtevalWords, PairsDoNotOverlap) {
  EXPECT_THAT(MtevalWords("a.,5"), ElementsAre("a", ".", ",5"));
}

TEST(MtevalWords, EntitiesBecomeWhatTheyMean) {
  EXPECT_THAT(MtevalWords("&quot;R&amp;D&quot; &lt;<skipped>&gt;"),
              ElementsAre("\"", "R", "&", "D", "\"", "<", ">"));
}

// U+00A0 is white space, U+2019 part of a word.
TEST(MtevalWords, OtherScriptsAreCutAtWhiteSpaceAndStopsOnly) {
  EXPECT_THAT(MtevalWords("für\u00a0dich, l\u2019été."),
              ElementsAre("für", "dich", ",", "l\u2019été", "."));
  EXPECT_THAT(MtevalWords("\xff. x\xc3"), ElementsAre("\xff", ".", "x\xc3"));
}

TEST(MtevalWords, OfBlankTextAreNone) {
  EXPECT_THAT(MtevalWords(""), IsEmpty());
  EXPECT_THAT(MtevalWords(" \t\n "), IsEmpty());
}

}  // namespace
}  // namespace paceline::data
