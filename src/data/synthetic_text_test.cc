#include "data/synthetic_text.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int32_t> Sentence(const SyntheticText& text, std::uint64_t index) {
  std::vector<std::int32_t> words{1, 2, 3};
  EXPECT_THAT(text.Read(index, words), IsOk());
  return words;
}

TEST(SyntheticText, IsAPureFunctionOfSeedAndSentence) {
  const SyntheticText small({.seed = 3, .sentences = 20}), large({.seed = 3}), other({.seed = 4});
  for (const std::uint64_t index : {19U, 0U, 7U}) {
    EXPECT_EQ(Sentence(small, index), Sentence(large, index));
    EXPECT_NE(Sentence(small, index), Sentence(other, index));
  }
  EXPECT_NE(Sentence(small, 0), Sentence(small, 1));
}

// Numbers published for a seed stay comparable: these words never change.
TEST(SyntheticText, IsPinnedByGoldenValues) {
  const SyntheticText text({.seed = 1, .sentence_words = 8, .background = 100, .pairs = 5});
  EXPECT_THAT(Sentence(text, 0), ElementsAre(109, 104, 1, 52, 185, 0, 0, 189));
}

TEST(SyntheticText, WordsComeAsOftenAsCountsSay) {
  for (const std::uint32_t pairs : {0U, 1U, 5U}) {
    const SyntheticText text(
        {.seed = testing::TestSeed(), .sentences = 4000, .background = 30, .pairs = pairs});
    std::vector<double> seen(text.counts().size());
    for (std::uint64_t s = 0; s < text.sentences(); ++s) {
      for (const std::int32_t word : Sentence(text, s)) ++seen.at(static_cast<std::size_t>(word));
    }
    for (std::size_t word = 0; word < seen.size(); ++word) {
      const auto expected = static_cast<double>(text.counts()[word]);
      // Words of a sentence go together, so the spread is larger than that of single draws.
      EXPECT_NEAR(seen[word], expected, 15 * std::sqrt(expected) + 10) << "word " << word;
    }
  }
}

TEST(SyntheticText, QuestionsAskForTheOtherPairsSecondWord) {
  const SyntheticText text({.background = 10, .pairs = 3});
  const auto questions = text.Questions();
  ASSERT_EQ(questions.size(), 6U);
  for (const AnalogyQuestion& q : questions) {
    EXPECT_EQ(q.b - q.a, q.d - q.c);
    EXPECT_NE(q.a, q.c);
  }
  EXPECT_EQ(text.Similarities().size(), 15U);
  EXPECT_TRUE(SyntheticText({.pairs = 0}).Questions().empty());
  EXPECT_TRUE(SyntheticText({.pairs = 0}).Similarities().empty());
}

TEST(SyntheticText, RefusesASentenceThatIsNotThere) {
  std::vector<std::int32_t> words;
  EXPECT_THAT(SyntheticText({.sentences = 0}).Read(0, words),
              StatusIs(Code::kInvalidArgument, HasSubstr("sentence 0 of 0")));
}

TEST(SyntheticText, FingerprintNamesEveryOption) {
  EXPECT_EQ(SyntheticText({.seed = 9, .sentences = 5, .background = 7, .pairs = 2}).Fingerprint(),
            "synthetic-text:1 seed:9 sentences:5x20 background:7 pairs:2");
}

}  // namespace
}  // namespace paceline::data
