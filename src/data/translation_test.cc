#include "data/translation_batches.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/byte_pairs.h"
#include "data/loader.h"
#include "data/parallel_text.h"
#include "data/synthetic_translation.h"
#include "data/text_data.h"
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
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Task = SyntheticTranslationOptions::Task;

// Pairs of given ids.
class GivenPairs final : public TranslationSource {
 public:
  explicit GivenPairs(std::vector<SentencePair> pairs) : pairs_(std::move(pairs)) {}
  std::uint64_t size() const override { return pairs_.size(); }
  Status Read(std::uint64_t index, SentencePair& pair) const override {
    pair = pairs_[index];
    return {};
  }
  PairLengths Lengths(std::uint64_t index) const override {
    return {static_cast<std::uint32_t>(pairs_[index].source.size()),
            static_cast<std::uint32_t>(pairs_[index].target.size())};
  }
  std::string Fingerprint() const override { return "given"; }

 private:
  std::vector<SentencePair> pairs_;
};

std::vector<std::int64_t> Integers(const Batch& batch, std::size_t array) {
  const auto values = batch.tensors.at(array).Integers();
  return {values.begin(), values.end()};
}

std::vector<float> Floats(const Batch& batch, std::size_t array) {
  const auto values = batch.tensors.at(array).Floats();
  return {values.begin(), values.end()};
}

TEST(TranslationBatches, ArraysAreTheOnesThatModelsExpect) {
  const TranslationBatches batches(
      std::make_shared<GivenPairs>(std::vector<SentencePair>{{{7, 8, 9}, {5}}, {{6}, {10, 11}}}));
  BatchBuffer buffer;
  const std::vector<SampleRef> samples{{1, 0}, {0, 1}};
  ASSERT_THAT(batches.Fill({.samples = samples, .training = true}, buffer), IsOk());
  const Batch& batch = buffer.batch;
  EXPECT_THAT(batch.tensors, SizeIs(4));
  EXPECT_THAT(batch.tensors[0].shape, ElementsAre(2, 3));
  EXPECT_THAT(batch.tensors[1].shape, ElementsAre(2, 3));
  EXPECT_THAT(Integers(batch, 0), ElementsAre(6, 0, 0, 7, 8, 9));
  EXPECT_THAT(Integers(batch, 1), ElementsAre(1, 10, 11, 1, 5, 0));
  EXPECT_THAT(Integers(batch, 2), ElementsAre(10, 11, 2, 5, 2, 0));
  EXPECT_THAT(Floats(batch, 3), ElementsAre(1.F / 3, 1.F / 3, 1.F / 3, .5F, .5F, 0));
  ASSERT_THAT(batches.Fill({}, buffer), IsOk());
  EXPECT_THAT(buffer.batch.tensors[0].shape, ElementsAre(0, 0));
}

TEST(TranslationBatches, WeightsOfAPackAddUpToOne) {
  const auto source = std::make_shared<GivenPairs>(
      std::vector<SentencePair>{{{7, 8}, {5}}, {{6}, {10, 11}}, {{9}, {4, 5, 6, 7}}});
  const TranslationBatches batches(source, {.tokens = 6, .seed = 1});
  ASSERT_EQ(batches.size(), 2U);  // 2 x 3 pieces, then 1 x 5
  BatchBuffer buffer;
  const std::vector<SampleRef> samples{{0, 0}};
  ASSERT_THAT(batches.Fill({.samples = samples}, buffer), IsOk());
  EXPECT_THAT(Integers(buffer.batch, 0), ElementsAre(7, 8, 6, 0));
  EXPECT_THAT(Integers(buffer.batch, 2), ElementsAre(5, 2, 0, 10, 11, 2));
  EXPECT_THAT(Floats(buffer.batch, 3), ElementsAre(.2F, .2F, 0, .2F, .2F, .2F));
}

TEST(TokenPacks, HoldEverySentenceOnceAndStayBelowTheLimit) {
  const auto source = SyntheticTranslation::Create({.seed = TestSeed(), .size = 1000});
  ASSERT_THAT(source, IsOk());
  for (const std::size_t tokens : {32U, 100U, 1000U}) {
    for (const std::size_t pool : {1U, 7U, 999U, 1000U, 1001U}) {
      const TokenPacks packs(*source, {.tokens = tokens, .seed = TestSeed(), .pool = pool});
      std::multiset<std::uint64_t> seen;
      for (std::size_t p = 0; p < packs.size(); ++p) {
        std::size_t widest = 0;
        for (const std::uint64_t index : packs.pack(p)) {
          const PairLengths lengths = source->Lengths(index);
          widest = std::max<std::size_t>({widest, lengths.source, lengths.target + 1});
          seen.insert(index);
        }
        EXPECT_LE(widest * packs.pack(p).size(), tokens);
        EXPECT_FALSE(packs.pack(p).empty());
      }
      ASSERT_EQ(seen.size(), 1000U);
      ASSERT_EQ(std::set(seen.begin(), seen.end()).size(), 1000U);
    }
  }
}

TEST(TokenPacks, SortingLeavesLittlePadding) {
  const auto source = SyntheticTranslation::Create({.seed = TestSeed(), .size = 4000});
  ASSERT_THAT(source, IsOk());
  const TokenPacks packs(*source, {.tokens = 500, .seed = TestSeed()});
  double pieces = 0, padded = 0;
  for (std::size_t p = 0; p < packs.size(); ++p) {
    std::size_t widest = 0;
    for (const std::uint64_t index : packs.pack(p)) {
      pieces += source->Lengths(index).target + 1;
      widest = std::max<std::size_t>(widest, source->Lengths(index).target + 1);
    }
    padded += static_cast<double>(widest * packs.pack(p).size());
  }
  EXPECT_GT(pieces / padded, 0.95);
}

// All ids of all batches of a loader.
std::vector<std::vector<std::int64_t>> Load(const BatchSource& source, int threads) {
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
    for (std::size_t array = 0; array < 3; ++array) ids.push_back(Integers(**batch, array));
  }
}

TEST(TranslationBatches, ContentDoesNotDependOnThreads) {
  auto made = SyntheticTranslation::Create({.seed = TestSeed(), .size = 300});
  ASSERT_THAT(made, IsOk());
  const auto source = std::make_shared<SyntheticTranslation>(std::move(*made));
  const TranslationBatches packed(source, {.tokens = 100, .seed = 1}), single(source);
  EXPECT_EQ(Load(packed, 1), Load(packed, 3));
  EXPECT_EQ(Load(single, 1), Load(single, 3));
}

TEST(SyntheticTranslation, FitsVocabularyAndLengthOfEveryModel) {
  for (const Task task : {Task::kCopy, Task::kReverse, Task::kGrammar}) {
    for (const std::uint32_t vocabulary : {40U, 41U, 64U, 512U, 32'000U}) {
      for (const std::uint32_t length : {12U, 16U, 64U, 256U}) {
        const auto source = SyntheticTranslation::Create({.seed = TestSeed(),
                                                          .size = 200,
                                                          .task = task,
                                                          .vocabulary = vocabulary,
                                                          .max_length = length});
        ASSERT_THAT(source, IsOk());
        for (std::uint64_t i = 0; i < source->size(); ++i) {
          SentencePair pair;
          ASSERT_THAT(source->Read(i, pair), IsOk());
          ASSERT_FALSE(pair.source.empty());
          ASSERT_LT(pair.target.size(), length);
          ASSERT_EQ(pair.source.size(), pair.target.size());
          ASSERT_EQ(source->Lengths(i).source, pair.source.size());
          for (const auto& side : {pair.source, pair.target}) {
            for (const std::int32_t id : side) {
              ASSERT_TRUE(id >= 4 && id < static_cast<std::int32_t>(vocabulary)) << id;
            }
          }
          auto expected = pair.source;
          if (task == Task::kReverse) std::ranges::reverse(expected);
          if (task == Task::kGrammar) expected = pair.target;
          ASSERT_EQ(pair.target, expected);
        }
      }
    }
  }
  EXPECT_THAT(SyntheticTranslation::Create({.vocabulary = 39}),
              StatusIs(Code::kInvalidArgument, HasSubstr("39")));
}

TEST(SyntheticTranslation, GrammarTranslatesClausesOutOfOrderAndWithAgreement) {
  const auto source = SyntheticTranslation::Create({.seed = TestSeed(), .size = 3000});
  ASSERT_THAT(source, IsOk());
  std::map<std::vector<std::int32_t>, std::vector<std::int32_t>> known;
  std::map<std::int32_t, std::set<std::int32_t>> last_for_verb, behind_for_determiner;
  for (std::uint64_t i = 0; i < source->size(); ++i) {
    SentencePair pair;
    ASSERT_THAT(source->Read(i, pair), IsOk());
    // The source decides the target.
    EXPECT_EQ(known.try_emplace(pair.source, pair.target).first->second, pair.target);
    if (pair.source.size() != 5) continue;  // det noun verb det noun: noun det noun det verb
    last_for_verb[pair.source[2]].insert(pair.target[4]);
    behind_for_determiner[pair.source[0]].insert(pair.target[1]);
  }
  for (const auto& [verb, translations] : last_for_verb) EXPECT_THAT(translations, SizeIs(1));
  for (const auto& [determiner, forms] : behind_for_determiner) EXPECT_THAT(forms, SizeIs(2));
  EXPECT_GE(last_for_verb.size(), 3U);
}

class TranslationData : public ::testing::Test {
 protected:
  TranslationData() {
    WriteFile(dir_ / "train.en", "the cat sat\na dog ran home\r\nthe end\n");
    WriteFile(dir_ / "train.de", "die Katze sa\u00DF\nein Hund lief heim\ndas Ende\n");
    WriteFile(dir_ / "valid.en", "the cat\n");
    WriteFile(dir_ / "valid.de", "die Katze\n");
  }
  TextDataOptions Options() {
    return {.data = dir_.path(), .languages = "en-de", .pieces = 300, .max_length = 30};
  }

  TempDir dir_;
};

TEST_F(TranslationData, SentencesComeBackFromTheirIds) {
  const auto data = OpenTranslationData(Options());
  ASSERT_THAT(data, IsOk());
  EXPECT_THAT(data->notes, ElementsAre(HasSubstr("learnt ")));
  EXPECT_THAT(data->warnings, IsEmpty());
  ASSERT_EQ(data->train->size(), 3U);
  BatchBuffer buffer;
  const std::vector<SampleRef> samples{{1, 0}};
  ASSERT_THAT(data->train->Fill({.samples = samples}, buffer), IsOk());
  const auto text = [&](std::size_t array) {
    const auto ids = Integers(buffer.batch, array);
    return data->tokenizer->Decode(std::vector<std::int32_t>(ids.begin(), ids.end()));
  };
  EXPECT_EQ(text(0), "a dog ran home");
  EXPECT_EQ(text(1), "ein Hund lief heim");
  EXPECT_EQ(text(2), "ein Hund lief heim");
  // A second worker, or start, has the same.
  const auto again = OpenTranslationData(Options());
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->notes, IsEmpty());
  EXPECT_EQ(again->train->Fingerprint(), data->train->Fingerprint());
}

TEST_F(TranslationData, NamesOfFilesDecideTheDirection) {
  auto options = Options();
  options.languages = "de-en";
  const auto data = OpenTranslationData(options);
  ASSERT_THAT(data, IsOk());
  EXPECT_NE(data->train->Fingerprint(), OpenTranslationData(Options())->train->Fingerprint());
  options.languages = "";
  EXPECT_THAT(OpenTranslationData(options),
              StatusIs(Code::kInvalidArgument, HasSubstr("train.de train.en")));
  options.languages = "en";
  EXPECT_THAT(OpenTranslationData(options), StatusIs(Code::kInvalidArgument, HasSubstr("'en'")));
  options.languages = "en-fr";
  EXPECT_THAT(OpenTranslationData(options), StatusIs(Code::kBadData, HasSubstr(".fr")));
}

TEST_F(TranslationData, NewsTestsAreHeldOut) {
  std::filesystem::remove(dir_.path() / "valid.en");
  EXPECT_THAT(OpenTranslationData(Options()), StatusIs(Code::kBadData, HasSubstr("newstest*.en")));
  WriteFile(dir_ / "newstest2014.en", "a\nb\n");
  WriteFile(dir_ / "newstest2014.de", "c\nd\n");
  WriteFile(dir_ / "newstest2015.en", "e\n");
  WriteFile(dir_ / "newstest2015.de", "f\n");
  const auto data = OpenTranslationData(Options());
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(data->held_out->size(), 3U);
}

TEST_F(TranslationData, BadLinesAreNamedOrLeftOut) {
  const auto expect = [&](const std::string& german, const std::string& message) {
    WriteFile(dir_ / "train.de", german);
    auto options = Options();
    EXPECT_THAT(OpenTranslationData(options),
                StatusIs(Code::kBadData, AllOf(HasSubstr("train.de"), HasSubstr(message))));
    options.policy = BadRecord::kSkip;
    const auto data = OpenTranslationData(options);
    ASSERT_THAT(data, IsOk());
    EXPECT_EQ(data->train->size(), 2U);
    EXPECT_EQ(data->train->BadRecords(), 1U);
    EXPECT_THAT(data->warnings, ElementsAre(HasSubstr("1 bad lines left out")));
    BatchBuffer buffer;
    const std::vector<SampleRef> samples{{1, 0}};
    ASSERT_THAT(data->train->Fill({.samples = samples}, buffer), IsOk());
    const auto ids = Integers(buffer.batch, 2);
    EXPECT_EQ(data->tokenizer->Decode(std::vector<std::int32_t>(ids.begin(), ids.end())), "Ende");
  };
  expect("ja\nkaputt \xFF hier\nEnde\n", "line 2, byte offset 3: byte 7 of the line is not UTF-8");
  expect("ja\n \nEnde\n", "line 2, byte offset 3: an empty line");
  expect("ja\nqwertzuiopasdfghjklyxcvbnmQWERTZUIOPASDFGHJKL\nEnde\n",
         "line 2, byte offset 3: 47 pieces; the model takes at most 30");
}

TEST_F(TranslationData, TextsOfDifferentLengthAreAlwaysRefused) {
  auto options = Options();
  options.policy = BadRecord::kSkip;
  WriteFile(dir_ / "train.de", "eins\nzwei\n");
  EXPECT_THAT(OpenTranslationData(options),
              StatusIs(Code::kBadData, AllOf(HasSubstr("train.en has 3 lines"),
                                             HasSubstr("train.en: line 3, byte offset 28"))));
}

TEST_F(TranslationData, PacksNeedRoomForTheLongestSentence) {
  auto options = Options();
  options.batch_tokens = 29;
  EXPECT_THAT(OpenTranslationData(options),
              StatusIs(Code::kInvalidArgument, HasSubstr("--batch-tokens 29")));
  options.batch_tokens = 60;
  const auto data = OpenTranslationData(options);
  ASSERT_THAT(data, IsOk());
  EXPECT_LT(data->train->size(), 3U);
  EXPECT_EQ(data->held_out->size(), 1U);
}

}  // namespace
}  // namespace paceline::data
