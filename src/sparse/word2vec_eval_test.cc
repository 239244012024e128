#include "sparse/word2vec_eval.h"

#include <vector>

#include <gtest/gtest.h>

#include "sparse/alias_table.h"
#include "testing/seed.h"

namespace paceline::sparse {
namespace {

TEST(JudgeAnalogies, FindsTheNearestWordApartFromTheQuestion) {
  // a, b, c, d with b - a = d - c, and something else; lengths do not matter.
  const std::vector<float> values{1, 0, 0, 2, 0, 2, 3, 0, 3, 0, 4, 4, -1, -1, 0};
  const EmbeddingView rows{values, 3};
  ASSERT_EQ(rows.rows(), 5U);
  const std::vector<data::AnalogyQuestion> right{{0, 1, 2, 1}}, wrong{{0, 1, 2, 4}};
  EXPECT_EQ(JudgeAnalogies(rows, right).top1, 1);
  EXPECT_EQ(JudgeAnalogies(rows, wrong).top1, 0);
  EXPECT_EQ(JudgeAnalogies(rows, wrong).top4, 1);
  EXPECT_EQ(JudgeAnalogies(rows, {}).top4, 0);
}

TEST(JudgeAnalogies, RowsThatAreAllEqualAnswerNothing) {
  const std::vector<float> zeros(10);
  const std::vector<data::AnalogyQuestion> question{{0, 1, 2, 3}};
  EXPECT_EQ(JudgeAnalogies({zeros, 2}, question).top1, 0);
}

TEST(JudgeAnalogies, CountsAnswersAmongTheFourNearest) {
  // b - a + c is (0, 1); the others turn away from it one after the other.
  std::vector<float> values{1, 0, 1, 1e-3F, 0, 1};
  for (int word = 0; word < 5; ++word) {
    values.push_back(static_cast<float>(word));
    values.push_back(10);
  }
  const auto judged = [&](std::int32_t d) {
    return JudgeAnalogies({values, 2}, std::vector<data::AnalogyQuestion>{{0, 1, 2, d}});
  };
  EXPECT_EQ(judged(3).top1, 1);
  EXPECT_EQ(judged(3).top4, 1);
  EXPECT_EQ(judged(4).top1, 0);
  EXPECT_EQ(judged(6).top4, 1);
  EXPECT_EQ(judged(7).top4, 0);
}

TEST(Spearman, IsOneForAnyRisingFunctionAndMinusOneForAFallingOne) {
  const std::vector<double> x{1, 2, 3, 4}, rising{-5, 0, 0.1, 99}, falling{9, 8, 1, 0};
  EXPECT_DOUBLE_EQ(Spearman(x, rising), 1);
  EXPECT_DOUBLE_EQ(Spearman(x, falling), -1);
}

TEST(Spearman, SharesRanksOfEqualValues) {
  // scipy.stats.spearmanr([1, 2, 2, 3], [1, 3, 2, 4])
  EXPECT_NEAR(Spearman(std::vector<double>{1, 2, 2, 3}, std::vector<double>{1, 3, 2, 4}),
              0.9486832980505138, 1e-12);
  EXPECT_EQ(Spearman(std::vector<double>{1, 1}, std::vector<double>{1, 2}), 0);
  EXPECT_EQ(Spearman({}, {}), 0);
}

TEST(SimilarityCorrelation, ComparesCosinesWithWhatIsGiven) {
  const std::vector<float> values{1, 0, 5, 1, 0, 1, -1, 0};
  const std::vector<data::SimilarityPair> pairs{{0, 1, 10}, {0, 2, 5}, {0, 3, 1}};
  EXPECT_DOUBLE_EQ(SimilarityCorrelation({values, 2}, pairs), 1);
}

TEST(AliasTable, DrawsInProportionToTheWeights) {
  const std::vector<double> weights{5, 0, 1, 3, 1};
  const AliasTable table(weights);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
  std::vector<int> drawn(weights.size());
  for (int i = 0; i < 100'000; ++i) ++drawn[table.Draw(rng)];
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(drawn[i], weights[i] * 10'000, 700) << i;
  }
  EXPECT_EQ(drawn[1], 0);
  EXPECT_EQ(AliasTable(std::vector<double>{3}).Draw(rng), 0U);
}

}  // namespace
}  // namespace paceline::sparse
