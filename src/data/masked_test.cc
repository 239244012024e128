#include "data/masked_batches.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/loader.h"
#include "data/synthetic_documents.h"
#include "data/text_data.h"
#include "data/word_pieces.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::paceline::testing::TempDir;
using ::paceline::testing::TestSeed;
using ::paceline::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Documents of given numbers of sentences; a sentence is three pieces that say where it stands.
class GivenDocuments final : public DocumentSource {
 public:
  explicit GivenDocuments(std::vector<std::uint32_t> sentences)
      : sentences_(std::move(sentences)) {}
  std::uint64_t documents() const override { return sentences_.size(); }
  std::uint32_t sentences(std::uint64_t document) const override { return sentences_[document]; }
  Status Read(std::uint64_t document, std::uint32_t sentence,
              std::vector<std::int32_t>& ids) const override {
    ids.insert(ids.end(), 3, static_cast<std::int32_t>(100 * (document + 1) + sentence));
    return {};
  }
  std::uint32_t vocabulary() const override { return 1000; }
  std::string Fingerprint() const override { return "given"; }

 private:
  std::vector<std::uint32_t> sentences_;
};

std::unique_ptr<MaskedBatches> Make(std::vector<std::uint32_t> sentences, std::uint32_t length) {
  auto made = MaskedBatches::Create(std::make_shared<GivenDocuments>(std::move(sentences)),
                                    {.max_length = length});
  EXPECT_THAT(made, IsOk());
  return std::move(*made);
}

// The instance before anything was hidden.
std::vector<std::int32_t> Original(const MaskedInstance& instance) {
  std::vector<std::int32_t> tokens = instance.tokens;
  for (std::size_t i = 0; i < instance.places.size(); ++i) {
    tokens[instance.places[i]] = instance.right[i];
  }
  return tokens;
}

TEST(MaskedBatches, StretchesFillAnInstanceAndLeaveNoSentenceAlone) {
  EXPECT_EQ(Make({2, 2}, 128)->size(), 2U);
  EXPECT_EQ(Make({1, 2, 1}, 128)->size(), 1U);    // single sentences only serve as others
  EXPECT_EQ(Make({9, 2}, 12)->size(), 3U + 1U);   // 9 pieces fit: 3 + 3 + 3 sentences
  EXPECT_EQ(Make({10, 2}, 12)->size(), 3U + 1U);  // the last three take the fourth
  EXPECT_EQ(Make({11, 2}, 12)->size(), 4U + 1U);
}

TEST(MaskedBatches, SegmentsFollowEachOtherOrComeFromAnotherDocument) {
  const auto batches = Make({6, 6, 6}, 40);
  ASSERT_EQ(batches->size(), 3U);
  int next = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    MaskedInstance instance;
    const CounterRng rng(TestSeed(), Purpose::kTest, static_cast<std::uint64_t>(i), 0);
    ASSERT_THAT(batches->Make(1, rng, instance), IsOk());
    const auto tokens = Original(instance);
    ASSERT_EQ(tokens.front(), WordPieces::kClass);
    ASSERT_EQ(tokens.back(), WordPieces::kSeparator);
    ASSERT_EQ(tokens[instance.second - 1], WordPieces::kSeparator);
    ASSERT_EQ(tokens[1], 200);
    const std::int32_t last = tokens[instance.second - 2], first = tokens[instance.second];
    ASSERT_EQ(first == last + 1, instance.is_next) << last << " " << first;
    ASSERT_EQ(first / 100 == 2, instance.is_next);
    next += instance.is_next ? 1 : 0;
  }
  EXPECT_NEAR(next, kDraws / 2, 150);
}

TEST(MaskedBatches, FifteenPercentAreHiddenInThreeWays) {
  int masked = 0, kept = 0, other = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    MaskedInstance instance{.tokens = std::vector<std::int32_t>(103, 77), .second = 52};
    instance.tokens[0] = WordPieces::kClass;
    instance.tokens[51] = instance.tokens[102] = WordPieces::kSeparator;
    const std::vector<std::int32_t> before = instance.tokens;
    CounterRng rng(TestSeed(), Purpose::kTest, i, 1);
    MaskTokens(rng, 1000, instance);
    ASSERT_EQ(instance.places.size(), 15U);
    ASSERT_TRUE(std::ranges::is_sorted(instance.places));
    ASSERT_EQ(Original(instance), before);
    for (const std::uint32_t place : instance.places) {
      ASSERT_EQ(before[place], 77);
      const std::int32_t token = instance.tokens[place];
      ++(token == WordPieces::kMask ? masked : token == 77 ? kept : other);
    }
  }
  EXPECT_NEAR(masked / 30'000.0, 0.8, 0.02);
  EXPECT_NEAR(kept / 30'000.0, 0.1, 0.02);
  EXPECT_NEAR(other / 30'000.0, 0.1, 0.02);
}

TEST(MaskedBatches, LongPairsAreShortenedOnBothSides) {
  const auto batches = Make({40, 40}, 20);
  for (std::uint64_t i = 0; i < 200; ++i) {
    MaskedInstance instance;
    ASSERT_THAT(batches->Make(i % batches->size(), CounterRng(i), instance), IsOk());
    ASSERT_LE(instance.tokens.size(), 20U);
    ASSERT_GE(instance.second, 3U);
    ASSERT_GE(instance.tokens.size() - instance.second, 2U);
  }
}

TEST(MaskedBatches, ArraysAreTheOnesThatModelsExpect) {
  const auto batches = Make({2, 4}, 40);
  BatchBuffer buffer;
  const std::vector<SampleRef> samples{{0, 0}, {1, 1}};
  ASSERT_THAT(batches->Fill({.samples = samples, .training = true, .seed = 5}, buffer), IsOk());
  const auto& arrays = buffer.batch.tensors;
  ASSERT_EQ(arrays.size(), 6U);
  const std::int64_t length = arrays[0].shape[1];
  EXPECT_THAT(arrays[0].shape, ElementsAre(2, length));
  EXPECT_THAT(arrays[1].shape, ElementsAre(2, length));
  EXPECT_THAT(arrays[5].shape, ElementsAre(2));
  for (std::uint64_t row = 0; row < 2; ++row) {
    MaskedInstance instance;
    ASSERT_THAT(batches->Make(row, CounterRng(5, Purpose::kAugment, 0, row), instance), IsOk());
    std::vector<std::int64_t> tokens(instance.tokens.begin(), instance.tokens.end());
    std::vector<std::int64_t> segments(tokens.size(), 0);
    std::fill(segments.begin() + static_cast<std::ptrdiff_t>(instance.second), segments.end(), 1);
    tokens.resize(static_cast<std::size_t>(length));
    segments.resize(static_cast<std::size_t>(length));
    const auto begin = row * static_cast<std::uint64_t>(length);
    EXPECT_TRUE(std::ranges::equal(arrays[0].Integers().subspan(begin, tokens.size()), tokens));
    EXPECT_TRUE(std::ranges::equal(arrays[1].Integers().subspan(begin, tokens.size()), segments));
    EXPECT_EQ(arrays[5].Integers()[row], instance.is_next ? 1 : 0);
    double weights = 0;
    std::vector<std::int64_t> right;
    for (std::size_t m = 0; m < arrays[2].Elements(); ++m) {
      const std::int64_t place = arrays[2].Integers()[m];
      if (place / length != static_cast<std::int64_t>(row)) continue;
      weights += arrays[4].Floats()[m];
      right.push_back(arrays[3].Integers()[m]);
    }
    EXPECT_NEAR(weights, 1, 1e-6);
    EXPECT_TRUE(std::ranges::equal(right, instance.right));
  }
  ASSERT_THAT(batches->Fill({}, buffer), IsOk());
  EXPECT_THAT(buffer.batch.tensors[2].shape, ElementsAre(0));
}

std::vector<std::int64_t> Tokens(const BatchSource& source, const FillRequest& request) {
  BatchBuffer buffer;
  EXPECT_THAT(source.Fill(request, buffer), IsOk());
  const auto ids = buffer.batch.tensors.at(0).Integers();
  return {ids.begin(), ids.end()};
}

TEST(MaskedBatches, InstancesAreFixedWhenHeldOutAndChangeWithTheStepInTraining) {
  const auto batches = Make({20, 20}, 40);
  const std::vector<SampleRef> here{{0, 3}}, there{{0, 4}};
  const auto held_out = Tokens(*batches, {.samples = here, .seed = 1});
  EXPECT_EQ(Tokens(*batches, {.samples = there, .seed = 2, .step = Step(9)}), held_out);
  const FillRequest one{.samples = here, .training = true, .seed = 1, .step = Step(1)};
  EXPECT_EQ(Tokens(*batches, one), Tokens(*batches, one));
  EXPECT_NE(Tokens(*batches, one),
            Tokens(*batches, {.samples = here, .training = true, .seed = 1, .step = Step(2)}));
  EXPECT_NE(Tokens(*batches, one),
            Tokens(*batches, {.samples = there, .training = true, .seed = 1, .step = Step(1)}));
}

std::vector<std::vector<std::int64_t>> LoadMasked(const BatchSource& source, int threads) {
  const algo::BatchPlan plan{
      .seed = 3, .dataset_size = source.size(), .batch = 3, .shards = 2, .total_samples = 50};
  const auto loader = BatchLoader::Create(
      source, plan, {.end_shard = ShardId(2), .threads = threads, .depth = 2 + threads});
  EXPECT_THAT(loader, IsOk());
  std::vector<std::vector<std::int64_t>> ids;
  for (;;) {
    const auto batch = (*loader)->Next({});
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok() || *batch == nullptr) return ids;
    for (const std::size_t array : {0U, 2U, 3U}) {
      const auto values = (*batch)->tensors.at(array).Integers();
      ids.emplace_back(values.begin(), values.end());
    }
  }
}

class MaskedData : public ::testing::Test {
 protected:
  // Documents whose words tell where they are from.
  void Write(const std::string& name, int documents) {
    std::string text;
    for (int d = 0; d < documents; ++d) {
      for (int s = 0; s < 4; ++s) text += fmt::format("Topic{} says word{} again.\n", d % 7, s);
      text += d % 2 == 0 ? "\n" : "\n \r\n";
    }
    WriteFile(dir_ / name, text);
  }
  TextDataOptions Options() { return {.data = dir_.path(), .pieces = 100, .max_length = 64}; }

  TempDir dir_;
};

TEST_F(MaskedData, ContentDoesNotDependOnThreads) {
  Write("news", 250);
  const auto data = OpenMaskedData(Options());
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(data->train->size(), 247U);  // two of 250 are every 100th, one is the last
  EXPECT_EQ(data->held_out->size(), 3U);
  EXPECT_EQ(LoadMasked(*data->train, 1), LoadMasked(*data->train, 3));
  EXPECT_THAT(data->notes, ElementsAre(HasSubstr("learnt ")));
}

TEST_F(MaskedData, FilesNamedValidAreHeldOut) {
  Write("a.txt", 5);
  Write("b.txt", 5);
  Write("valid.txt", 3);
  auto options = Options();
  options.letters = LetterCase::kLower;
  const auto data = OpenMaskedData(options);
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(data->train->size(), 10U);
  EXPECT_EQ(data->held_out->size(), 3U);
  std::vector<std::int32_t> upper, lower;
  data->tokenizer->Encode("TOPIC1", upper);
  data->tokenizer->Encode("topic1", lower);
  EXPECT_EQ(upper, lower);
  // One file alone is text as well.
  options.data = dir_ / "a.txt";
  EXPECT_THAT(OpenMaskedData(options), StatusIs(Code::kBadData, HasSubstr("held out: 1 document")));
}

TEST_F(MaskedData, BadTextIsNamedOrLeftOut) {
  WriteFile(dir_ / "a", "one\ntwo\n\nthree\nfour \xFE\nfive\nsix\n\nx\ny\n");
  WriteFile(dir_ / "valid", "one\ntwo\n\nthree\nfour\n");
  auto options = Options();
  EXPECT_THAT(OpenMaskedData(options),
              StatusIs(Code::kBadData, HasSubstr("a: line 5, byte offset 15: byte 5 of the line")));
  options.policy = BadRecord::kSkip;
  const auto data = OpenMaskedData(options);
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(data->train->size(), 3U);  // one two, five six, x y
  EXPECT_EQ(data->train->BadRecords(), 1U);
  WriteFile(dir_ / "a", "one\ntwo\nthree\n");
  EXPECT_THAT(OpenMaskedData(options), StatusIs(Code::kBadData, HasSubstr("1 document")));
  WriteFile(dir_ / "a", "one\n\ntwo\n\nthree\n");
  EXPECT_THAT(OpenMaskedData(options), StatusIs(Code::kBadData, HasSubstr("two sentences")));
}

// What the rules of the language say about a hidden word, given the others; 0: nothing.
std::int32_t Predict(const std::vector<std::int32_t>& tokens, std::size_t place) {
  using Docs = SyntheticDocuments;
  constexpr std::size_t kWords = Docs::kSentenceWords;
  const auto at = [&](std::size_t i) { return i < tokens.size() ? tokens[i] : 0; };
  // First form and number of a thing, from its noun or from its verb.
  const auto thing = [&](std::size_t noun, bool has_verb) {
    for (const std::size_t i : {noun, noun + 1}) {
      if (i != noun && !has_verb) break;
      if (at(i) < Docs::kFirstWord || i == place) continue;
      const std::int32_t form = (at(i) - Docs::kFirstWord) % 4;
      return std::pair(at(i) - form, form % 2);
    }
    return std::pair(0, at(noun - 1) == Docs::kPlural ? 1 : 0);
  };
  // Places of a sentence: its first segment begins at 1, its second behind a mark.
  const auto mark =
      static_cast<std::size_t>(std::ranges::find(tokens, WordPieces::kSeparator) - tokens.begin());
  const std::size_t base = place < mark ? 1 : mark + 1;
  const std::size_t word = (place - base) % kWords, sentence = place - word;
  const std::size_t limit = place < mark ? mark : tokens.size() - 1;
  auto subject = thing(sentence + 1, true);
  if (subject.first == 0 && sentence > base) subject = thing(sentence - kWords + 4, false);
  auto object = thing(sentence + 4, false);
  if (object.first == 0 && sentence + kWords < limit) object = thing(sentence + kWords + 1, true);
  switch (word) {
    case 0: return Docs::kSingular + subject.second;
    case 1: return subject.first + subject.second;
    case 2: return subject.first + 2 + subject.second;
    case 3: return Docs::kSingular + object.second;
    case 4: return object.first + object.second;
    default: return Docs::kStop;
  }
}

TEST(SyntheticDocuments, RulesPredictFarMoreThanFrequencies) {
  for (const std::uint32_t length : {32U, 128U}) {
    auto made = SyntheticDocuments::Create(
        {.seed = TestSeed(), .documents = 3000, .vocabulary = 64, .max_length = length});
    ASSERT_THAT(made, IsOk());
    const auto documents = std::make_shared<SyntheticDocuments>(std::move(*made));
    const auto batches = MaskedBatches::Create(documents, {.max_length = length});
    ASSERT_THAT(batches, IsOk());
    ASSERT_EQ((*batches)->size(), 3000U);
    double hidden = 0, right = 0, told_next = 0;
    std::map<std::int32_t, double> frequency;
    for (std::uint64_t i = 0; i < 3000; ++i) {
      MaskedInstance instance;
      ASSERT_THAT((*batches)->Make(i, CounterRng(i), instance), IsOk());
      for (std::size_t m = 0; m < instance.places.size(); ++m) {
        ++hidden;
        ++frequency[instance.right[m]];
        right += Predict(instance.tokens, instance.places[m]) == instance.right[m] ? 1 : 0;
      }
      const auto tokens = Original(instance);
      const bool linked = tokens[instance.second - 3] == tokens[instance.second + 1];
      told_next += linked == instance.is_next ? 1 : 0;
    }
    double most = 0;
    for (const auto& [token, count] : frequency) most = std::max(most, count);
    EXPECT_LT(most / hidden, 0.2);
    EXPECT_GT(right / hidden, length == 32 ? 0.85 : 0.94);
    EXPECT_GT(told_next / 3000, 0.95);
    RecordProperty(
        fmt::format("length_{}", length),
        fmt::format("{:.3f} {:.3f} {:.3f}", most / hidden, right / hidden, told_next / 3000));
  }
}

TEST(SyntheticDocuments, FitVocabularyAndLengthOfEveryModel) {
  for (const std::uint32_t vocabulary : {24U, 25U, 64U, 512U, 30'522U}) {
    for (const std::uint32_t length : {15U, 16U, 64U, 512U}) {
      auto made = SyntheticDocuments::Create(
          {.seed = TestSeed(), .documents = 50, .vocabulary = vocabulary, .max_length = length});
      ASSERT_THAT(made, IsOk());
      std::vector<std::int32_t> ids;
      for (std::uint64_t d = 0; d < 50; ++d) {
        for (std::uint32_t s = 0; s < made->sentences(d); ++s) {
          ASSERT_THAT(made->Read(d, s, ids), IsOk());
        }
      }
      EXPECT_LT(*std::ranges::max_element(ids), static_cast<std::int32_t>(vocabulary));
      EXPECT_LE(ids.size() / 50, length - 3);
    }
  }
  EXPECT_THAT(SyntheticDocuments::Create({.vocabulary = 23}),
              StatusIs(Code::kInvalidArgument, HasSubstr("23")));
}

}  // namespace
}  // namespace paceline::data
