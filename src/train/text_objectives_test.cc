#include "train/text_objectives.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "data/byte_pairs.h"
#include "testing/status_matchers.h"
#include "train/transformer.h"

namespace paceline::train {
namespace {

using testing::IsOk;
using Ids = std::vector<std::int64_t>;

// Translates into what it was told, whatever the source says.
class Told final : public Translator {
 public:
  explicit Told(std::vector<Ids> translations) : translations_(std::move(translations)) {}

  Tensors Forward(const Tensors& batch, const ForwardContext&) override {
    return {torch::zeros({batch[1].numel(), 2}), torch::zeros({1'000, 2})};
  }
  std::vector<Ids> Translate(const torch::Tensor& source, std::int64_t) override {
    EXPECT_EQ(source.size(0), std::ssize(translations_));
    return translations_;
  }

 private:
  std::vector<Ids> translations_;
};

struct Pair {
  Ids translation, reference;
};

double BleuOf(const std::vector<Pair>& pairs, const data::Tokenizer* tokenizer) {
  std::size_t longest = 0;
  for (const Pair& pair : pairs) longest = std::max(longest, pair.reference.size() + 1);
  const auto rows = static_cast<std::int64_t>(pairs.size());
  const torch::Tensor targets =
      torch::zeros({rows, static_cast<std::int64_t>(longest)}, torch::kLong);
  std::vector<Ids> translations;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pair& pair = pairs[static_cast<std::size_t>(i)];
    translations.push_back(pair.translation);
    Ids target = pair.reference;
    target.push_back(kSentenceEnd);
    targets[i].narrow(0, 0, std::ssize(target)).copy_(torch::tensor(target));
  }
  Told network(translations);
  const Translation objective(0.1);
  std::vector<double> sums(objective.SumCount());
  objective.Count(network, {targets, targets, targets, targets.ne(0).to(torch::kFloat)},
                  {.sums = sums, .tokenizer = tokenizer});
  const std::vector<Metric> metrics = objective.Metrics(sums, {});
  EXPECT_EQ(metrics.back().name, "bleu");
  return metrics.back().value;
}

class Bleu : public ::testing::Test {
 protected:
  static constexpr const char* kText =
      "he was interested in world history because he read the book";

  void SetUp() override {
    data::WordCounts counts;
    data::SplitSegments(kText, [&](std::string_view word) { counts[std::string(word)] += 1; });
    auto learnt = data::BytePairs::Learn(counts, 300);
    ASSERT_THAT(learnt, IsOk());
    tokenizer_ = std::move(*learnt);
  }

  Ids PiecesOf(std::string_view text) const {
    std::vector<std::int32_t> ids;
    tokenizer_->Encode(text, ids);
    return {ids.begin(), ids.end()};
  }
  double OfTexts(const std::vector<std::pair<std::string, std::string>>& texts) const {
    std::vector<Pair> pairs;
    for (const auto& [translation, reference] : texts) {
      pairs.push_back({PiecesOf(translation), PiecesOf(reference)});
    }
    return BleuOf(pairs, tokenizer_.get());
  }

  std::unique_ptr<data::BytePairs> tokenizer_;
};

// NLTK's value for this pair, as in algo/bleu_test.cc; that of its pieces is another.
TEST_F(Bleu, IsOfWordsNotOfPieces) {
  const std::string translation = "he read the book because he was interested in world history";
  constexpr double kPublished = 0.7400828044922853;
  EXPECT_NEAR(OfTexts({{translation, kText}}), kPublished, 1e-12);
  EXPECT_GT(std::abs(BleuOf({{PiecesOf(translation), PiecesOf(kText)}}, nullptr) - kPublished),
            1e-3);
}

// Both have the word "book": all but the first of 6 are right.
TEST_F(Bleu, CutsSignsFromWords) {
  EXPECT_NEAR(OfTexts({{"a man read the book.", "the man read the book ."}}),
              std::pow((5.0 / 6) * (4.0 / 5) * (3.0 / 4) * (2.0 / 3), 0.25), 1e-12);
}

// 9 words each; in the last of 40 sentences one of them is wrong, in the middle: of the n-grams
// 8, 6, 4 and 2 are right.
TEST_F(Bleu, IsOfEverySentenceOfTheBatch) {
  std::vector<std::pair<std::string, std::string>> texts(
      39, {"a b c d e f g h i", "a b c d e f g h i"});
  EXPECT_NEAR(OfTexts(texts), 1, 1e-12);
  texts.emplace_back("a b c d x f g h i", "a b c d e f g h i");
  const double product = ((39.0 * 9 + 8) / (40 * 9)) * ((39.0 * 8 + 6) / (40 * 8)) *
                         ((39.0 * 7 + 4) / (40 * 7)) * ((39.0 * 6 + 2) / (40 * 6));
  EXPECT_NEAR(OfTexts(texts), std::pow(product, 0.25), 1e-12);
}

// Synthetic data have no text.
TEST_F(Bleu, WithoutATokenizerEachPieceIsAWord) {
  EXPECT_NEAR(BleuOf({{{5, 6, 7, 8, 9}, {5, 6, 7, 8, 9, 10}}}, nullptr), std::exp(1 - 6.0 / 5),
              1e-12);
}

// Figures from sums that stand for: 2 samples, 4 tokens of which 3 right.
TEST(MaskedLanguage, FiguresFollowFromTheSums) {
  const double sums[] = {3.0, 2.0, 4 * std::log(2.0), 3, 4, /*next*/ 1, 1.0, 2};
  const MaskedLanguage objective;
  ASSERT_EQ(objective.SumCount(), std::size(sums));
  const std::vector<Metric> metrics = objective.Metrics(sums, {});
  EXPECT_EQ(metrics[0].name, "loss");
  EXPECT_DOUBLE_EQ(metrics[0].value, 2.0);
  EXPECT_EQ(metrics[1].name, "accuracy");
  EXPECT_DOUBLE_EQ(metrics[1].value, 0.75);
  EXPECT_EQ(metrics[2].name, "perplexity");
  EXPECT_DOUBLE_EQ(metrics[2].value, 2.0);
  EXPECT_EQ(metrics[3].name, "nsp_accuracy");
  EXPECT_DOUBLE_EQ(metrics[3].value, 0.5);
}

}  // namespace
}  // namespace paceline::train
