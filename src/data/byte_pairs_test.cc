#include "data/byte_pairs.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "data/characters.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::ReadFile;
using ::paceline::testing::StatusIs;
using ::paceline::testing::TempDir;
using ::paceline::testing::TestSeed;
using ::paceline::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Characters, InvalidUtf8IsFoundWhereItBegins) {
  EXPECT_EQ(FirstInvalidUtf8("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"), std::string_view::npos);
  EXPECT_EQ(FirstInvalidUtf8("ab\xC3"), 2U);               // cut
  EXPECT_EQ(FirstInvalidUtf8("a\xC0\x80"), 1U);            // overlong
  EXPECT_EQ(FirstInvalidUtf8("a\xE0\x80\x80"), 1U);        // overlong
  EXPECT_EQ(FirstInvalidUtf8("\xED\xA0\x80"), 0U);         // surrogate
  EXPECT_EQ(FirstInvalidUtf8("abc\xF4\x90\x80\x80"), 3U);  // above U+10FFFF
  EXPECT_EQ(FirstInvalidUtf8("\x80"), 0U);
  EXPECT_EQ(FirstInvalidUtf8(""), std::string_view::npos);
}

TEST(Characters, EveryCharacterComesBackFromItsBytes) {
  for (char32_t code = 0; code <= 0x10FFFF; code += code < 0x3000 ? 1 : 97) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(code, text);
    const Character read = FirstCharacter(text);
    ASSERT_TRUE(read.valid && read.code == code && read.bytes == text.size())
        << std::uint32_t{code};
  }
}

TEST(Characters, LowerCaseKnowsLatinGreekAndCyrillic) {
  EXPECT_EQ(LowerCase(U'A'), U'a');
  EXPECT_EQ(LowerCase(U'Ä'), U'ä');
  EXPECT_EQ(LowerCase(U'Ž'), U'ž');
  EXPECT_EQ(LowerCase(U'Ł'), U'ł');
  EXPECT_EQ(LowerCase(U'Ω'), U'ω');
  EXPECT_EQ(LowerCase(U'Я'), U'я');
  for (const char32_t same : U"aäžłωя×÷1ß中") EXPECT_EQ(LowerCase(same), same);
}

std::vector<std::string> Segments(std::string_view text) {
  std::vector<std::string> segments;
  SplitSegments(text, [&](std::string_view segment) { segments.emplace_back(segment); });
  return segments;
}

TEST(SplitSegments, ABlankBelongsToTheWordBehindIt) {
  EXPECT_THAT(Segments("Hello, world 42!"), ElementsAre(" Hello", ",", " world", " 42", "!"));
  EXPECT_THAT(Segments("a  b\tc"), ElementsAre(" a", " ", " b", "\t", "c"));
  EXPECT_THAT(Segments(" x "), ElementsAre(" ", " x", " "));
  EXPECT_THAT(Segments("\xE2\x80\x9Eja\xE2\x80\x9C"),
              ElementsAre(" \xE2\x80\x9E", "ja", "\xE2\x80\x9C"));
  EXPECT_THAT(Segments(""), ElementsAre(" "));
}

// Pairs by hand: e-s and s-t are there 9 times (of equals the smaller left one is first), es-t 9,
// l-o and o-w 7, lo-w 7, then n-e, e-w and w-est 6 each, and so on.
const WordCounts kCounts{{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}};

TEST(BytePairs, LearnsTheMergesThatAPersonFinds) {
  const auto learnt = BytePairs::Learn(kCounts, 1000);
  ASSERT_THAT(learnt, IsOk());
  EXPECT_THAT((*learnt)->ToFile("x").entries,
              ElementsAre("e s", "es t", "l o", "lo w", "e w", "n ew", "new est", "d est", "i dest",
                          "w idest", "e r", "low er"));
  EXPECT_EQ((*learnt)->size(), BytePairs::kFewestPieces + 12);
}

TEST(BytePairs, StopsAtTheNumberOfPieces) {
  const auto learnt = BytePairs::Learn(kCounts, BytePairs::kFewestPieces + 2);
  ASSERT_THAT(learnt, IsOk());
  EXPECT_THAT((*learnt)->ToFile("x").entries, ElementsAre("e s", "es t"));
  std::vector<std::int32_t> ids;
  (*learnt)->Encode("best", ids);
  EXPECT_THAT(ids, ElementsAre(4 + ' ', 4 + 'b', 261));
  EXPECT_THAT(BytePairs::Learn(kCounts, BytePairs::kFewestPieces - 1),
              StatusIs(Code::kInvalidArgument, HasSubstr("at least 260")));
}

TEST(BytePairs, RunsOfOneByteAreCountedOnce) {
  // aaaa: a-a three times, so 6; merged from the left: aa aa, then aaaa.
  const auto learnt = BytePairs::Learn({{"aaaa", 2}}, 1000);
  ASSERT_THAT(learnt, IsOk());
  EXPECT_THAT((*learnt)->ToFile("x").entries, ElementsAre("a a", "aa aa"));
}

// What the fast way of counting must agree with.
std::vector<std::string> LearnSlowly(const WordCounts& counts, std::size_t merges) {
  std::vector<std::pair<std::vector<std::int32_t>, std::uint64_t>> words;
  for (const auto& [word, count] : counts) {
    auto& symbols = words.emplace_back(std::vector<std::int32_t>(), count).first;
    for (const char c : word) symbols.push_back(4 + static_cast<unsigned char>(c));
  }
  std::vector<std::string> text(260), learnt;
  for (std::size_t byte = 0; byte < 256; ++byte) text[4 + byte] = static_cast<char>(byte);
  while (learnt.size() < merges) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> pairs;
    for (const auto& [symbols, count] : words) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        pairs[{symbols[i], symbols[i + 1]}] += count;
      }
    }
    const auto best = std::ranges::max_element(
        pairs, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < 2) break;
    const auto [left, right] = best->first;
    const auto word_of = [&](std::int32_t id) { return text[static_cast<std::size_t>(id)]; };
    learnt.push_back(EscapePiece(word_of(left)) + " " + EscapePiece(word_of(right)));
    const auto known = std::ranges::find(text, word_of(left) + word_of(right));
    const auto merged = static_cast<std::int32_t>(known - text.begin());
    if (known == text.end()) text.push_back(word_of(left) + word_of(right));
    for (auto& [symbols, count] : words) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] != left || symbols[i + 1] != right) continue;
        symbols[i] = merged;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return learnt;
}

TEST(BytePairs, FastCountingLearnsWhatSlowCountingDoes) {
  CounterRng rng(TestSeed(), Purpose::kTest, 1, 0);
  for (int repeat = 0; repeat < 20; ++repeat) {
    WordCounts counts;
    for (int i = 0; i < 100; ++i) {
      std::string word;
      for (std::uint32_t n = 1 + rng.Below(9); n > 0; --n) {
        word += static_cast<char>('a' + rng.Below(3));
      }
      counts[word] += 1 + rng.Below(20);
    }
    const auto slow = LearnSlowly(counts, 60);
    const auto fast = BytePairs::Learn(counts, 10'000);
    ASSERT_THAT(fast, IsOk());
    auto entries = (*fast)->ToFile("x").entries;
    entries.resize(std::min(entries.size(), slow.size()));
    ASSERT_EQ(entries, slow) << "repeat " << repeat;
  }
}

std::string RandomText(CounterRng& rng) {
  static constexpr std::string_view kPieces[] = {
      "low",          "est", " ", "  ",   "\t", "new", "\xC3\xA4",
      "\xE4\xB8\xAD", ".",   "7", "\xFF", "\n", "\\",  "w"};
  std::string text;
  for (std::uint32_t n = rng.Below(30); n > 0; --n) {
    text += rng.Below(5) == 0 ? std::string(1, static_cast<char>(rng.Below(256)))
                              : std::string(kPieces[rng.Below(std::size(kPieces))]);
  }
  return text;
}

TEST(BytePairs, AnyBytesComeBackExactly) {
  const auto learnt = BytePairs::Learn(kCounts, 1000);
  ASSERT_THAT(learnt, IsOk());
  CounterRng rng(TestSeed(), Purpose::kTest, 0, 0);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = RandomText(rng);
    std::vector<std::int32_t> ids;
    (*learnt)->Encode(text, ids);
    ASSERT_EQ((*learnt)->Decode(ids), text);
    for (const std::int32_t id : ids) ASSERT_TRUE(id >= 4 && id < 272) << id;
  }
}

TEST(BytePairs, DecodingLeavesOutWhatIsNoPiece) {
  const auto learnt = BytePairs::Learn(kCounts, 1000);
  ASSERT_THAT(learnt, IsOk());
  EXPECT_EQ((*learnt)->Decode(std::vector<std::int32_t>{1, 4 + 'a', 0, -7, 99999, 2}), "a");
}

TEST(BytePairs, AVeryLongWordIsCut) {
  const auto learnt = BytePairs::Learn({{"aaaa", 2}}, 1000);
  ASSERT_THAT(learnt, IsOk());
  const std::string text(1 << 20, 'a');
  std::vector<std::int32_t> ids;
  (*learnt)->Encode(text, ids);
  EXPECT_EQ((*learnt)->Decode(ids), text);
}

TEST(VocabularyFile, ComesBackWithTheSameBytes) {
  TempDir dir;
  const auto learnt = BytePairs::Learn({{" \\n", 3}, {"\xC3\xA4\xC3\xB6", 2}}, 1000);
  ASSERT_THAT(learnt, IsOk());
  const std::string path = dir / "cache/a.vocab";
  ASSERT_THAT((*learnt)->ToFile("abc").Save(path), IsOk());
  const auto file = VocabularyFile::Load(path);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->learnt_from, "abc");
  const auto again = BytePairs::FromFile(*file);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->ToFile("abc").ToText(), ReadFile(path));
  EXPECT_EQ((*again)->size(), (*learnt)->size());
}

TEST(VocabularyFile, EveryCutAndEveryChangedLetterIsRefused) {
  const auto learnt = BytePairs::Learn(kCounts, 1000);
  ASSERT_THAT(learnt, IsOk());
  const std::string text = (*learnt)->ToFile("abc").ToText();
  ASSERT_THAT(VocabularyFile::Parse(text), IsOk());
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_THAT(VocabularyFile::Parse(text.substr(0, i)),
                StatusIs(Code::kBadData, HasSubstr("line")));
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_THAT(VocabularyFile::Parse(changed), StatusIs(Code::kBadData, HasSubstr("line"))) << i;
  }
}

TEST(VocabularyFile, DamageIsNamedWithFileAndLine) {
  TempDir dir;
  WriteFile(dir / "v", "paceline-vocabulary 1\nkind byte-pairs\ncase maybe\n");
  EXPECT_THAT(VocabularyFile::Load(dir / "v"),
              StatusIs(Code::kBadData, AllOf(HasSubstr(dir / "v"), HasSubstr("line 3"))));
  EXPECT_THAT(VocabularyFile::Load(dir / "none"), StatusIs(Code::kBadData, HasSubstr("none")));
  const auto entries = [](std::vector<std::string> lines) {
    return BytePairs::FromFile({.kind = "byte-pairs", .entries = std::move(lines)});
  };
  EXPECT_THAT(entries({"a b", "abc d"}), StatusIs(Code::kBadData, HasSubstr("line 6: not two")));
  EXPECT_THAT(entries({"a b", "a b"}), StatusIs(Code::kBadData, HasSubstr("line 6: the same")));
  EXPECT_THAT(entries({"a"}), StatusIs(Code::kBadData, HasSubstr("line 5")));
  EXPECT_THAT(entries({"a \\q"}), StatusIs(Code::kBadData, HasSubstr("line 5: a backslash")));
  EXPECT_THAT(entries({"a \\x4"}), StatusIs(Code::kBadData, HasSubstr("line 5")));
  EXPECT_THAT(entries({"a\x01 b"}), StatusIs(Code::kBadData, HasSubstr("line 5: a byte")));
  EXPECT_THAT(BytePairs::FromFile({.kind = "word-pieces"}),
              StatusIs(Code::kBadData, HasSubstr("line 2")));
}

}  // namespace
}  // namespace paceline::data
