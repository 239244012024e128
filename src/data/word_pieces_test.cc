#include "data/word_pieces.h"

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/learnt_vocabulary.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::ReadFile;
using ::paceline::testing::StatusIs;
using ::paceline::testing::TempDir;
using ::paceline::testing::WriteFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Words(std::string_view text, LetterCase letters) {
  std::vector<std::string> words;
  SplitWords(text, letters, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(SplitWords, PunctuationAndChineseCharactersStandAlone) {
  EXPECT_THAT(Words("Don't  stop\t(now)!", LetterCase::kKeep),
              ElementsAre("Don", "'", "t", "stop", "(", "now", ")", "!"));
  EXPECT_THAT(Words("\u00C4pfel 3x \u4E2D\u6587", LetterCase::kLower),
              ElementsAre("\u00E4pfel", "3x", "\u4E2D", "\u6587"));
  EXPECT_THAT(Words(" \t\r", LetterCase::kKeep), IsEmpty());
}

std::vector<std::int32_t> Encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.Encode(text, ids);
  return ids;
}

Result<std::unique_ptr<WordPieces>> FromPieces(std::vector<std::string> pieces) {
  return WordPieces::FromFile({.kind = "word-pieces", .entries = std::move(pieces)});
}

// The example of Devlin et al.: unaffable.
TEST(WordPieces, TakesTheLongestPieceThatFits) {
  const auto made = FromPieces({"un", "u", "##aff", "##able", "##a", "runn", "##ing", ","});
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(Encode(**made, "unaffable"), ElementsAre(5, 7, 8));
  EXPECT_THAT(Encode(**made, "running, una"), ElementsAre(10, 11, 12, 5, 9));
  EXPECT_THAT(Encode(**made, "unx un"), ElementsAre(WordPieces::kUnknown, 5));
  EXPECT_THAT(Encode(**made, "u" + std::string(100, 'a')), ElementsAre(WordPieces::kUnknown));
  EXPECT_THAT(Encode(**made, "u" + std::string(99, 'a')), SizeIs(100));
  EXPECT_EQ((*made)->Decode(Encode(**made, "running , unaffable")), "running , unaffable");
}

TEST(WordPieces, LearnsCharactersThenTheMergesThatAPersonFinds) {
  // ##u-##g: 15 + 5, h-##ug: 15, then p-##un: ##u-##n 12 first.
  const WordCounts counts{{"hug", 15}, {"pug", 5}, {"pun", 12}};
  const auto learnt = WordPieces::Learn(counts, 100, LetterCase::kKeep);
  ASSERT_THAT(learnt, IsOk());
  EXPECT_THAT((*learnt)->ToFile("x").entries,
              ElementsAre("##g", "##n", "##u", "h", "p", "##ug", "hug", "##un", "pun", "pug"));
  EXPECT_THAT(Encode(**learnt, "hug pug"), ElementsAre(11, 14));
}

TEST(WordPieces, RareCharactersAreUnknown) {
  WordCounts counts;
  for (char c = 'a'; c <= 'z'; ++c) counts[std::string(1, c)] = static_cast<std::uint64_t>(c);
  const auto learnt = WordPieces::Learn(counts, 20, LetterCase::kKeep);  // ten characters
  ASSERT_THAT(learnt, IsOk());
  EXPECT_THAT(Encode(**learnt, "z q p a"), ElementsAre(14, 5, 1, 1));
  EXPECT_THAT(WordPieces::Learn(counts, 15, LetterCase::kKeep),
              StatusIs(Code::kInvalidArgument, HasSubstr("at least 16")));
}

TEST(WordPieces, DamageIsNamedWithItsLine) {
  EXPECT_THAT(FromPieces({"a", "##"}), StatusIs(Code::kBadData, HasSubstr("line 6")));
  EXPECT_THAT(FromPieces({"a", "b", "a"}), StatusIs(Code::kBadData, HasSubstr("line 7: the same")));
  EXPECT_THAT(FromPieces({""}), StatusIs(Code::kBadData, HasSubstr("line 5")));
  EXPECT_THAT(WordPieces::FromFile({.kind = "byte-pairs"}),
              StatusIs(Code::kBadData, HasSubstr("line 2")));
}

class LearntVocabulary : public ::testing::Test {
 protected:
  LearntVocabulary() { WriteFile(dir_ / "text", "the cat the hat the\nThat\n"); }

  Result<OpenedVocabulary> Open(VocabularyOptions options) {
    if (options.cache.empty()) options.cache = dir_ / "cache";
    PACELINE_ASSIGN(const TextLines lines,
                    TextLines::Open(std::vector<std::filesystem::path>{dir_ / "text"},
                                    [](std::string&) { return Status(); }));
    const std::array<const TextLines*, 1> texts{&lines};
    return OpenVocabulary(options, texts);
  }

  std::filesystem::path OnlyFile() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "cache")) {
      files.push_back(entry.path());
    }
    EXPECT_THAT(files, SizeIs(1));
    return files.empty() ? std::filesystem::path() : files.front();
  }

  TempDir dir_;
  const VocabularyOptions pieces_{.kind = PieceKind::kWordPieces, .pieces = 40};
};

TEST_F(LearntVocabulary, IsLearntOnceAndThenRead) {
  const auto first = Open(pieces_);
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(first->notes, ElementsAre(HasSubstr("learnt ")));
  const auto second = Open(pieces_);
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(second->notes, IsEmpty());
  EXPECT_EQ(second->tokenizer->ToFile("").ToText(), first->tokenizer->ToFile("").ToText());
  // The file can be named as well.
  VocabularyOptions named = pieces_;
  named.file = OnlyFile();
  const auto third = Open(named);
  ASSERT_THAT(third, IsOk());
  EXPECT_EQ(Encode(*third->tokenizer, "the hat"), Encode(*first->tokenizer, "the hat"));
}

TEST_F(LearntVocabulary, OtherTextIsLearntAnew) {
  ASSERT_THAT(Open(pieces_), IsOk());
  WriteFile(dir_ / "text", "quite another text another text");
  const auto other = Open(pieces_);
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(other->notes, SizeIs(1));
  EXPECT_NE(Encode(*other->tokenizer, "another"), std::vector<std::int32_t>{WordPieces::kUnknown});
}

TEST_F(LearntVocabulary, DamageInTheCacheIsRepaired) {
  ASSERT_THAT(Open(pieces_), IsOk());
  const std::filesystem::path path = OnlyFile();
  const std::string good = ReadFile(path);
  WriteFile(path, good.substr(0, good.size() / 2));
  const auto again = Open(pieces_);
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->warnings, ElementsAre(HasSubstr("learnt anew")));
  EXPECT_EQ(ReadFile(path), good);
}

TEST_F(LearntVocabulary, WithoutAPlaceForItTrainingGoesOn) {
  VocabularyOptions nowhere = pieces_;
  nowhere.cache = dir_ / "text/cache";  // below a file
  const auto opened = Open(nowhere);
  ASSERT_THAT(opened, IsOk());
  EXPECT_THAT(opened->warnings, ElementsAre(HasSubstr("at every start")));
}

TEST_F(LearntVocabulary, AFileOfTheUserMustBeWholeAndFitTheModel) {
  ASSERT_THAT(Open(pieces_), IsOk());
  VocabularyOptions named = pieces_;
  named.file = OnlyFile();
  named.pieces = 10;
  EXPECT_THAT(Open(named), StatusIs(Code::kInvalidArgument, HasSubstr("at most 10")));
  named.pieces = 40;
  named.kind = PieceKind::kBytePairs;
  EXPECT_THAT(Open(named), StatusIs(Code::kBadData, HasSubstr("line 2")));
  WriteFile(named.file, "x\n");
  EXPECT_THAT(Open(named), StatusIs(Code::kBadData, HasSubstr("line 1")));
}

}  // namespace
}  // namespace paceline::data
