#include "algo/bleu.h"

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::algo {
namespace {

// Words as numbers, equal words as equal ones.
std::vector<std::int64_t> Ids(const std::string& text) {
  static std::map<std::string, std::int64_t> known;
  std::istringstream words(text);
  std::vector<std::int64_t> ids;
  for (std::string word; words >> word;) {
    ids.push_back(known.emplace(word, static_cast<std::int64_t>(known.size())).first->second);
  }
  return ids;
}

double BleuOf(const std::vector<std::pair<std::string, std::string>>& pairs) {
  BleuCounts counts;
  for (const auto& [translation, reference] : pairs) counts.Add(Ids(translation), Ids(reference));
  return counts.Value();
}

// The example of NLTK's documentation (sentence_bleu of hyp2 with ref2a): 11/11, 9/10, 6/9, 4/8.
TEST(Bleu, IsThePublishedValue) {
  EXPECT_NEAR(BleuOf({{"he read the book because he was interested in world history",
                       "he was interested in world history because he read the book"}}),
              0.7400828044922853, 1e-12);
}

TEST(Bleu, OfARepeatedReferenceIsOneAndOfAnotherTextZero) {
  EXPECT_EQ(BleuOf({{"a b c d e", "a b c d e"}}), 1);
  EXPECT_EQ(BleuOf({{"v w x y z", "a b c d e"}}), 0);
  EXPECT_EQ(BleuOf({{"", "a b c d e"}}), 0);
  EXPECT_EQ(BleuOf({}), 0);
}

// Papineni's example: "the" is counted as often as the reference has it, 2 of 7.
TEST(Bleu, ClipsRepeatedWords) {
  BleuCounts counts;
  counts.Add(Ids("the the the the the the the"), Ids("the cat is on the mat"));
  EXPECT_EQ(counts.matches[0], 2);
  EXPECT_EQ(counts.totals[0], 7);
  EXPECT_EQ(counts.matches[1], 0);
}

// 5 of 6 words, all n-grams right: only the brevity penalty exp(1 - 6/5) is left.
TEST(Bleu, PunishesShortTranslations) {
  EXPECT_NEAR(BleuOf({{"a b c d e", "a b c d e f"}}), std::exp(1 - 6.0 / 5), 1e-12);
  EXPECT_LT(BleuOf({{"a b c d e f g", "a b c d e f"}}), 1);
}

// Of the corpus, not a mean: 8+4 of 8+5 words, 7+2 of 7+4, 6+1 of 6+3, 5+0 of 5+2.
TEST(Bleu, AddsCountsOfSentences) {
  const double product = (12.0 / 13) * (9.0 / 11) * (7.0 / 9) * (5.0 / 7);
  EXPECT_NEAR(BleuOf({{"a b c d e f g h", "a b c d e f g h"}, {"a b c x d", "a b c y d"}}),
              std::pow(product, 0.25), 1e-12);
}

}  // namespace
}  // namespace paceline::algo
