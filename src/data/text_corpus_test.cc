#include "data/text_corpus.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::paceline::testing::TempDir;
using ::paceline::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Normalised(std::string line) {
  NormaliseLine(line);
  return line;
}

TEST(NormaliseLine, KeepsLowerCaseLettersAndSingleBlanks) {
  EXPECT_EQ(Normalised("  The U.S.A., in\t1999 \r"), "the usa in");
  EXPECT_EQ(Normalised("caf\xC3\xA9 don't"), "caf dont");
  EXPECT_EQ(Normalised("12 , 3"), "");
  EXPECT_EQ(Normalised(""), "");
  EXPECT_EQ(Normalised("a"), "a");
}

std::vector<std::int32_t> Words(const TextCorpus& corpus, std::uint64_t sentence) {
  std::vector<std::int32_t> words{99};
  EXPECT_THAT(corpus.Read(sentence, words), IsOk());
  return words;
}

// The words of a sentence, joined.
std::string Sentence(const TextCorpus& corpus, std::uint64_t sentence) {
  std::string text;
  for (const std::int32_t word : Words(corpus, sentence)) {
    text += (text.empty() ? "" : " ") + corpus.vocabulary().word(word);
  }
  return text;
}

TEST(TextCorpus, RareWordsBecomeUnknown) {
  TempDir dir;
  WriteFile(dir / "news-1", "a a a\nB b b. rare\n");
  WriteFile(dir / "news-2", "a b c c c");
  const auto corpus = TextCorpus::Open(dir.path(), {.min_count = 2});
  ASSERT_THAT(corpus, IsOk());
  EXPECT_EQ((*corpus)->sentences(), 3U);
  EXPECT_EQ(Sentence(**corpus, 0), "a a a");
  EXPECT_EQ(Sentence(**corpus, 1), "b b b <UNK>");
  EXPECT_EQ(Sentence(**corpus, 2), "a b c c c");
  EXPECT_THAT((*corpus)->counts(), ElementsAre(1, 4, 4, 3));  // <UNK> a b c
  EXPECT_EQ((*corpus)->vocabulary().Find("rare"), Vocabulary::kUnknown);
}

TEST(TextCorpus, EverySentenceCanBeReadAlone) {
  for (const int lines : {1, 15, 16, 17, 100}) {
    TempDir dir;
    std::string text;
    for (int i = 0; i < lines; ++i)
      text += std::string(static_cast<std::size_t>(i + 1), 'x') + "\n";
    WriteFile(dir / "a", text);
    WriteFile(dir / "b", "\n\nlast");
    const auto corpus = TextCorpus::Open(dir.path(), {.min_count = 0});
    ASSERT_THAT(corpus, IsOk());
    const auto count = static_cast<std::uint64_t>(lines);
    ASSERT_EQ((*corpus)->sentences(), count + 3);
    for (std::uint64_t i = count; i-- > 0;)
      EXPECT_EQ(Sentence(**corpus, i), std::string(i + 1, 'x'));
    EXPECT_THAT(Words(**corpus, count), IsEmpty());
    EXPECT_EQ(Sentence(**corpus, count + 2), "last");
    std::vector<std::int32_t> words;
    EXPECT_THAT((*corpus)->Read(count + 3, words),
                StatusIs(Code::kInvalidArgument, HasSubstr("line")));
  }
}

TEST(TextCorpus, LinesMayCrossTheEndOfABuffer) {
  TempDir dir;
  std::string text;
  while (text.size() < 3 * TextLines::kLongestLine) {
    text += std::string(700'000, 'x') + " end\n";
  }
  WriteFile(dir / "a", text);
  const auto corpus = TextCorpus::Open(dir.path(), {.min_count = 0});
  ASSERT_THAT(corpus, IsOk());
  EXPECT_EQ((*corpus)->sentences(), 5U);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(Words(**corpus, i).size(), 2U);
}

TEST(TextCorpus, AFileAloneIsRead) {
  TempDir dir;
  WriteFile(dir / "a", "one two\n");
  WriteFile(dir / "b", "three\n");
  const auto corpus = TextCorpus::Open(dir / "b", {.min_count = 0});
  ASSERT_THAT(corpus, IsOk());
  EXPECT_EQ((*corpus)->sentences(), 1U);
  EXPECT_EQ((*corpus)->vocabulary().word(1), "three");
}

TEST(TextCorpus, NamesFileAndOffsetOfBadInput) {
  TempDir dir;
  EXPECT_THAT(TextCorpus::Open(dir.path() / "nowhere", {}),
              StatusIs(Code::kBadData, HasSubstr("nowhere")));
  EXPECT_THAT(TextCorpus::Open(dir.path(), {}), StatusIs(Code::kBadData, HasSubstr("no file")));
  WriteFile(dir / "shard", std::string("good line\nbad \0 line\n", 20));
  EXPECT_THAT(TextCorpus::Open(dir.path(), {}),
              StatusIs(Code::kBadData, HasSubstr("shard: byte offset 14: a byte 0")));
  WriteFile(dir / "shard", "short\n" + std::string(2 * TextLines::kLongestLine, 'x'));
  EXPECT_THAT(TextCorpus::Open(dir.path(), {}),
              StatusIs(Code::kBadData, HasSubstr("shard: byte offset 6: no end of line")));
  std::filesystem::remove(dir / "shard");
  ASSERT_EQ(::mkfifo((dir / "shard").c_str(), 0600), 0);
  EXPECT_THAT(TextCorpus::Open(dir.path(), {}),
              StatusIs(Code::kBadData, HasSubstr("shard: is not a regular file")));
}

TEST(TextCorpus, AFileThatShrinksOrChangesIsAnErrorNotACrash) {
  TempDir dir;
  WriteFile(dir / "shard", "one two\nthree\nfour five\n");
  const auto corpus = TextCorpus::Open(dir.path(), {.min_count = 0});
  ASSERT_THAT(corpus, IsOk());
  std::vector<std::int32_t> words;
  WriteFile(dir / "shard", "one line of the same length!");
  EXPECT_THAT((*corpus)->Read(2, words), StatusIs(Code::kBadData, HasSubstr("fewer lines")));
  std::filesystem::resize_file(dir / "shard", 9);
  EXPECT_THAT((*corpus)->Read(2, words),
              StatusIs(Code::kBadData, HasSubstr("shard: byte offset 9: the file ends here")));
}

TEST(TextCorpus, FingerprintTellsContentsApartButNotFolders) {
  const auto fingerprint = [](const std::string& text) {
    TempDir dir;
    WriteFile(dir / "a", text);
    const auto corpus = TextCorpus::Open(dir.path(), {.min_count = 0});
    EXPECT_THAT(corpus, IsOk());
    return (*corpus)->Fingerprint();
  };
  EXPECT_EQ(fingerprint("a b\n"), fingerprint("a b\n"));
  EXPECT_NE(fingerprint("a b\n"), fingerprint("a c\n"));
  EXPECT_NE(fingerprint("a b\n"), fingerprint("a b\nb\n"));
}

TEST(Vocabulary, IsTheSameAfterSavingAndLoading) {
  TempDir dir;
  WriteFile(dir / "shard", "b b b a a a c rare\n");
  const auto corpus = TextCorpus::Open(dir.path(), {.min_count = 1});
  ASSERT_THAT(corpus, IsOk());
  TempDir elsewhere;
  ASSERT_THAT((*corpus)->vocabulary().Save(elsewhere / "words"), IsOk());
  EXPECT_EQ(testing::ReadFile(elsewhere / "words"), "<UNK> 2\na 3\nb 3\n");
  const auto again = TextCorpus::Open(dir.path(), {.vocabulary = elsewhere / "words"});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->counts(), (*corpus)->counts());
  EXPECT_EQ(Words(**again, 0), Words(**corpus, 0));
  EXPECT_EQ((*again)->Fingerprint(), (*corpus)->Fingerprint());
}

TEST(Vocabulary, NamesFileAndOffsetOfABadLine) {
  TempDir dir;
  const auto load = [&](const std::string& text) {
    WriteFile(dir / "words", text);
    return Vocabulary::Load(dir / "words");
  };
  const auto bad = [](const std::string& what) {
    return StatusIs(Code::kBadData, HasSubstr(what));
  };
  EXPECT_THAT(load(""), bad("words: no word"));
  EXPECT_THAT(load("a 3\n"), bad("byte offset 0: the first word is not <UNK>"));
  EXPECT_THAT(load("<UNK> 0\na three\n"), bad("words: byte offset 8: not \"word count\""));
  EXPECT_THAT(load("<UNK> 0\na\n"), bad("byte offset 8"));
  EXPECT_THAT(load("<UNK> 0\na 1\na 2\n"), bad("byte offset 12: \"a\" is there twice"));
  EXPECT_THAT(load("<UNK> 0\nA 1\n"), bad("byte offset 8: a word has other letters"));
  EXPECT_THAT(Vocabulary::Load(dir / "nowhere"), bad("nowhere: cannot be opened"));
  EXPECT_THAT(Vocabulary().Save(dir / "no/folder"), StatusIs(Code::kDisk, HasSubstr("no/folder")));
}

TEST(Subsampler, KeepsWordsWithThePublishedProbability) {
  const std::vector<std::uint64_t> counts{900'000, 99'000, 999, 1};
  const Subsampler subsampler(testing::TestSeed(), 1e-3, counts);
  EXPECT_NEAR(subsampler.KeepProbability(0), (std::sqrt(900.0) + 1) / 900, 1e-6);
  EXPECT_NEAR(subsampler.KeepProbability(1), (std::sqrt(99.0) + 1) / 99, 1e-6);
  EXPECT_EQ(subsampler.KeepProbability(2), 1);
  EXPECT_EQ(subsampler.KeepProbability(3), 1);
  std::vector<std::int32_t> words(100'000, 1);
  subsampler.Apply(0, 0, words);
  EXPECT_NEAR(static_cast<double>(words.size()), 100'000 * subsampler.KeepProbability(1), 1000);
}

TEST(Subsampler, IsAFunctionOfSeedEpochSentenceAndPlace) {
  const std::vector<std::uint64_t> counts(10, 1000);
  const auto kept = [&](std::uint64_t seed, std::uint64_t epoch, std::uint64_t sentence) {
    std::vector<std::int32_t> words;
    for (int i = 0; i < 200; ++i) words.push_back(i % 10);
    Subsampler(seed, 1e-2, counts).Apply(epoch, sentence, words);
    return words;
  };
  EXPECT_EQ(kept(1, 2, 3), kept(1, 2, 3));
  EXPECT_NE(kept(1, 2, 3), kept(2, 2, 3));
  EXPECT_NE(kept(1, 2, 3), kept(1, 3, 3));
  EXPECT_NE(kept(1, 2, 3), kept(1, 2, 4));
}

TEST(Subsampler, ThresholdZeroKeepsEverything) {
  std::vector<std::int32_t> words(1000, 0);
  Subsampler(1, 0, {1000}).Apply(0, 0, words);
  EXPECT_EQ(words.size(), 1000U);
}

}  // namespace
}  // namespace paceline::data
