#include "sparse/word2vec.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algo/metrics.h"
#include "data/synthetic_text.h"
#include "kernel/skip_gram.h"
#include "sparse/word2vec_eval.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::sparse {
namespace {

using ::paceline::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Both tables as the store would make them.
struct Tables {
  explicit Tables(const Word2Vec& model, std::uint64_t seed = 1) : dim(model.tables()[0].dim) {
    for (const TableSpec& spec : model.tables()) {
      CounterRng rng(seed, Purpose::kInit, values.size(), 0);
      values.emplace_back(spec.rows * spec.dim);
      for (float& value : values.back()) value = (2 * rng.Uniform() - 1) * spec.init_range;
    }
  }
  float* Row(std::size_t table, std::int64_t id) {
    return values[table].data() + static_cast<std::size_t>(id) * dim;
  }
  EmbeddingView Embeddings() const { return {values[0], dim}; }

  std::size_t dim;
  std::vector<std::vector<float>> values;
};

std::unique_ptr<SparseBatch> Prepared(const Word2Vec& model, algo::PositionRange range,
                                      std::unique_ptr<SparseBatch> into = nullptr) {
  auto batch = model.Prepare(range, std::move(into));
  EXPECT_THAT(batch, IsOk());
  return std::move(batch).value();
}

// The rows of a batch and a gradient buffer for them.
struct BatchRows {
  BatchRows(const SparseBatch& batch, Tables& tables) : rows(2), gradients(2) {
    for (std::size_t t = 0; t < 2; ++t) {
      for (const std::int64_t id : batch.ids[t]) rows[t].push_back(tables.Row(t, id));
      gradients[t].assign(rows[t].size() * tables.dim, 7.0F);  // to be overwritten
      spans.push_back({{rows[t].data(), rows[t].size()}, gradients[t]});
      mutable_spans.emplace_back(rows[t]);
    }
  }
  std::vector<std::vector<float*>> rows;
  std::vector<std::vector<float>> gradients;
  std::vector<TableRows> spans;
  std::vector<MutableRows> mutable_spans;
};

constexpr algo::PositionRange kSome{.begin = 3, .count = 40};

TEST(Word2Vec, HasTheParametersOfThePublishedBenchmark) {
  // 354,051 words; the benchmark has another 354,051 biases, which word2vec.c has not.
  const data::SyntheticText text({.background = 354'051, .pairs = 0});
  const Word2Vec model({}, text);
  ASSERT_EQ(model.tables().size(), 2U);
  EXPECT_EQ(model.tables()[0].rows * model.tables()[0].dim +
                model.tables()[1].rows * model.tables()[1].dim,
            212'784'651U - 354'051U);
  EXPECT_FLOAT_EQ(model.tables()[0].init_range, 0.5F / 300);
  EXPECT_EQ(model.tables()[1].init_range, 0);
  EXPECT_TRUE(model.dense().empty());
}

TEST(Word2Vec, ABatchIsAFunctionOfItsPositionsAlone) {
  const data::SyntheticText text({.sentences = 30, .background = 50, .pairs = 3});
  const Word2Vec model({.seed = testing::TestSeed(), .dim = 8, .subsample = 0.01}, text);
  const auto fresh = Prepared(model, kSome);  // crosses from epoch 0 into epoch 1
  auto used = Prepared(model, {.begin = 100, .count = 7});
  used = Prepared(model, kSome, std::move(used));
  const auto& a = static_cast<Word2VecBatch&>(*fresh);
  const auto& b = static_cast<Word2VecBatch&>(*used);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.samples, 40U);
  EXPECT_EQ(a.words, 40U * 20U);
}

TEST(Word2Vec, IdsAreUniqueAndOfTheVocabulary) {
  const data::SyntheticText text({.background = 50, .pairs = 3});
  const Word2Vec model({.seed = testing::TestSeed(), .dim = 8}, text);
  const auto batch = Prepared(model, kSome);
  for (const auto& ids : batch->ids) {
    const std::set<std::int64_t> distinct(ids.begin(), ids.end());
    EXPECT_EQ(distinct.size(), ids.size());
    EXPECT_GE(*distinct.begin(), 0);
    EXPECT_LT(*distinct.rbegin(), static_cast<std::int64_t>(text.counts().size()));
  }
}

TEST(Word2Vec, EveryPairLiesInAWindowAndEveryWindowIsDrawn) {
  const data::SyntheticText text({.sentences = 50, .background = 500, .pairs = 0});
  const Word2Vec model({.seed = testing::TestSeed(), .dim = 8, .window = 3, .subsample = 0}, text);
  const auto batch = Prepared(model, {.begin = 0, .count = 50});
  const auto& pairs = static_cast<Word2VecBatch&>(*batch);
  ASSERT_EQ(pairs.groups.size(), 50U * 20U);  // each word is a centre once
  std::map<std::uint32_t, int> sizes;
  std::uint32_t before = 0, outputs_before = 0;
  for (std::size_t g = 0; g < pairs.groups.size(); ++g) {
    const std::uint32_t inputs = pairs.groups[g].inputs_end - before;
    before = pairs.groups[g].inputs_end;
    EXPECT_LE(pairs.groups[g].outputs_end - outputs_before, 6U);
    outputs_before = pairs.groups[g].outputs_end;
    if (g % 20 >= 3 && g % 20 < 17) ++sizes[inputs];  // not cut by an end of the sentence
  }
  EXPECT_EQ(before, pairs.inputs.size());
  EXPECT_EQ(pairs.pairs, pairs.inputs.size());
  for (const std::uint32_t size : {2U, 4U, 6U}) EXPECT_NEAR(sizes[size], 700 / 3, 70) << size;
  EXPECT_EQ(sizes.size(), 3U);
}

TEST(Word2Vec, SentencesOfOneWordGiveNothing) {
  const data::SyntheticText text({.sentence_words = 1, .background = 5, .pairs = 0});
  const Word2Vec model({.dim = 4}, text);
  const auto batch = Prepared(model, kSome);
  EXPECT_TRUE(static_cast<Word2VecBatch&>(*batch).groups.empty());
  EXPECT_THAT(batch->ids, ElementsAre(::testing::IsEmpty(), ::testing::IsEmpty()));
}

TEST(Word2Vec, AnUnreadableSentenceIsAnError) {
  class Broken final : public data::TextSource {
   public:
    std::uint64_t sentences() const override { return 1; }
    const std::vector<std::uint64_t>& counts() const override { return counts_; }
    Status Read(std::uint64_t, std::vector<std::int32_t>&) const override {
      return Status::Error(Code::kBadData, "file: byte offset 3");
    }
    std::string Fingerprint() const override { return ""; }

   private:
    std::vector<std::uint64_t> counts_{1, 1};
  };
  const Broken text;
  EXPECT_THAT(Word2Vec({.dim = 4}, text).Prepare({0, 1}, nullptr),
              testing::StatusIs(Code::kBadData, HasSubstr("offset 3")));
}

TEST(Word2Vec, GradientsMatchFiniteDifferences) {
  const data::SyntheticText text({.background = 20, .pairs = 2});
  Word2Vec model({.dim = 5, .subsample = 0}, text);
  Tables tables(model);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 0, 0);
  for (auto& table : tables.values) {
    for (float& value : table) value = rng.Normal() / 2;
  }
  const auto batch = Prepared(model, {.begin = 0, .count = 3});
  BatchRows rows(*batch, tables), other(*batch, tables);
  constexpr float kScale = 0.25F, kStep = 1e-2F;
  const StepLoss loss = model.Compute(*batch, {}, kScale, {}, rows.spans);
  EXPECT_EQ(loss.samples, 60U);
  for (std::size_t t = 0; t < 2; ++t) {
    for (std::size_t i = 0; i < rows.gradients[t].size(); i += 3) {
      float& value = rows.rows[t][i / 5][i % 5];
      const float before = value;
      value = before + kStep;
      const double above = model.Compute(*batch, {}, 1, {}, other.spans).sum;
      value = before - kStep;
      const double below = model.Compute(*batch, {}, 1, {}, other.spans).sum;
      value = before;
      const double expected = kScale * (above - below) / (2 * kStep);
      EXPECT_NEAR(rows.gradients[t][i], expected, 0.01 + 0.01 * std::abs(expected))
          << t << " " << i;
    }
  }
}

// What word2vec.c does with the sentences of a batch: negatives of its own for each pair, an update
// after each pair, plain loops.
class ClassicTrainer {
 public:
  ClassicTrainer(const Word2VecOptions& options, const data::TextSource& text, Tables& tables)
      : options_(options), tables_(tables) {
    std::vector<double> weights;
    for (const std::uint64_t count : text.counts()) weights.push_back(std::pow(count, 0.75));
    negatives_.emplace_back(weights);
  }

  void Train(const Word2VecBatch& batch, float learning_rate) {
    std::uint32_t input = 0, output = 0;
    for (const auto& group : batch.groups) {
      const std::int64_t centre = batch.ids[1][batch.outputs[output]];
      for (; input < group.inputs_end; ++input) {
        Pair(batch.ids[0][batch.inputs[input]], centre, learning_rate);
      }
      output = group.outputs_end;
    }
  }

 private:
  void Pair(std::int64_t context, std::int64_t centre, float learning_rate) {
    float* in = tables_.Row(0, context);
    std::vector<float> change(tables_.dim);
    for (std::uint32_t n = 0; n <= options_.negatives; ++n) {
      const std::int64_t word = n == 0 ? centre : std::int64_t{negatives_[0].Draw(rng_)};
      if (n > 0 && word == centre) continue;
      float* out = tables_.Row(1, word);
      float score = 0;
      for (std::size_t d = 0; d < tables_.dim; ++d) score += in[d] * out[d];
      const float g = learning_rate * ((n == 0 ? 1.0F : 0.0F) - 1 / (1 + std::exp(-score)));
      for (std::size_t d = 0; d < tables_.dim; ++d) change[d] += g * out[d];
      for (std::size_t d = 0; d < tables_.dim; ++d) out[d] += g * in[d];
    }
    for (std::size_t d = 0; d < tables_.dim; ++d) in[d] += change[d];
  }

  Word2VecOptions options_;
  Tables& tables_;
  std::vector<AliasTable> negatives_;
  CounterRng rng_{testing::TestSeed(), Purpose::kTest, 9, 9};
};

// Runs train(batch, learning rate) over some epochs with linear decay.
template <typename Train>
void RunEpochs(const Word2Vec& model, std::uint64_t epochs, Train train) {
  constexpr std::uint64_t kBatch = 100;
  constexpr float kFirstRate = 0.025F;  // of word2vec.c
  const std::uint64_t total = epochs * model.dataset_size();
  std::unique_ptr<SparseBatch> batch;
  for (std::uint64_t begin = 0; begin < total; begin += kBatch) {
    batch = Prepared(model, {begin, std::min(kBatch, total - begin)}, std::move(batch));
    train(*batch, kFirstRate * (1 - static_cast<float>(begin) / static_cast<float>(total)));
  }
}

TEST(Word2Vec, LearnsPlantedAnalogiesAsWellAsTheClassicAlgorithm) {
  const data::SyntheticText text(
      {.seed = testing::TestSeed(), .sentences = 5000, .background = 300, .pairs = 10});
  const Word2VecOptions options{.seed = 1, .dim = 16, .window = 5};
  Word2Vec model(options, text);
  const auto questions = text.Questions();
  const auto similarities = text.Similarities();

  Tables shared(model), classic(model);
  const double before = JudgeAnalogies(shared.Embeddings(), questions).top1;
  constexpr std::uint64_t kEpochs = 3;
  StepLoss first, last;
  RunEpochs(model, kEpochs, [&](const SparseBatch& batch, float rate) {
    last = model.TrainInPlace(batch, BatchRows(batch, shared).mutable_spans, rate);
    if (first.samples == 0) first = last;
  });
  ClassicTrainer trainer(options, text, classic);
  RunEpochs(model, kEpochs, [&](const SparseBatch& batch, float rate) {
    trainer.Train(static_cast<const Word2VecBatch&>(batch), rate);
  });
  const double ours = JudgeAnalogies(shared.Embeddings(), questions).top1;
  const double theirs = JudgeAnalogies(classic.Embeddings(), questions).top1;
  const double ours_similar = SimilarityCorrelation(shared.Embeddings(), similarities);
  const double theirs_similar = SimilarityCorrelation(classic.Embeddings(), similarities);
  EXPECT_LT(before, 0.05);
  EXPECT_GT(ours, 0.97);
  EXPECT_NEAR(ours, theirs, 0.02);
  EXPECT_GT(ours_similar, 0.6);
  EXPECT_GT(ours_similar, theirs_similar - 0.1);
  EXPECT_LT(last.sum, 0.9 * first.sum);
}

}  // namespace
}  // namespace paceline::sparse
