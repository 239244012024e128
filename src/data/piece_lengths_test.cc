#include "data/piece_lengths.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "data/byte_pairs.h"
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

TEST(PieceLengthsFile, ComesBackAndDamageIsSeen) {
  const PieceLengths lengths{.made_of = 0x0123456789abcdef, .by_line = {3, 0, 70'000}};
  std::vector<std::byte> bytes = EncodePieceLengths(lengths);
  const auto read = DecodePieceLengths(bytes);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, lengths);
  EXPECT_EQ(DecodePieceLengths(EncodePieceLengths({})).value(), PieceLengths());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(DecodePieceLengths(std::span(bytes).first(cut)).ok()) << cut;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte{4};
    EXPECT_FALSE(DecodePieceLengths(bytes).ok()) << i;
    bytes[i] ^= std::byte{4};
  }
  bytes[8] = std::byte{2};
  EXPECT_THAT(DecodePieceLengths(bytes), StatusIs(Code::kMismatch, HasSubstr("version 2")));
}

// A vocabulary that cannot cut: lengths are those that were kept, or nothing.
class NoPieces final : public Tokenizer {
 public:
  explicit NoPieces(const Tokenizer& like) : like_(like) {}
  std::size_t size() const override { return like_.size(); }
  void Encode(std::string_view, std::vector<std::int32_t>&) const override {}
  std::string Decode(std::span<const std::int32_t>) const override { return {}; }
  VocabularyFile ToFile(std::string learnt_from) const override {
    return like_.ToFile(std::move(learnt_from));
  }

 private:
  const Tokenizer& like_;
};

class MeasuredText : public ::testing::Test {
 protected:
  MeasuredText() { WriteFile(dir_ / "text", "one\ntwo three\r\n\nx"); }

  MeasuredLines Measure(const Tokenizer& tokenizer) {
    const auto text = TextLines::Open(std::vector<std::filesystem::path>{dir_ / "text"},
                                      [](std::string&) { return Status(); });
    EXPECT_THAT(text, IsOk());
    auto measured = MeasureLines(*text, tokenizer, cache_);
    EXPECT_THAT(measured, IsOk());
    return std::move(measured).value();
  }
  std::vector<std::filesystem::path> Kept() const {
    std::vector<std::filesystem::path> kept;
    for (const auto& entry : std::filesystem::directory_iterator(cache_)) {
      kept.push_back(entry.path());
    }
    return kept;
  }

  TempDir dir_;
  std::filesystem::path cache_ = dir_ / "cache";
  // Without a merge every byte is a piece, and so is the blank before a line.
  std::unique_ptr<BytePairs> bytes_ = BytePairs::Learn({}, BytePairs::kFewestPieces).value();
};

TEST_F(MeasuredText, IsCutOnce) {
  const auto lengths = ElementsAre(4, 10, 1, 2);
  EXPECT_THAT(Measure(*bytes_).by_line, lengths);
  EXPECT_THAT(Kept(), SizeIs(1));
  const MeasuredLines again = Measure(NoPieces(*bytes_));
  EXPECT_THAT(again.by_line, lengths);
  EXPECT_THAT(again.warnings, IsEmpty());
}

TEST_F(MeasuredText, IsCutAgainWhenTextOrVocabularyChange) {
  Measure(*bytes_);
  WriteFile(dir_ / "text", "One\ntwo three\r\n\nx");
  EXPECT_THAT(Measure(NoPieces(*bytes_)).by_line, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Kept(), SizeIs(2));
  // " two" is one piece, and " t" of " three" too.
  const auto merged = BytePairs::Learn({{" two", 5}}, 300).value();
  EXPECT_THAT(Measure(*merged).by_line, ElementsAre(4, 6, 1, 2));
  EXPECT_THAT(Kept(), SizeIs(3));
}

TEST_F(MeasuredText, IsCutAgainWhenWhatWasKeptIsDamaged) {
  Measure(*bytes_);
  const std::filesystem::path path = Kept().at(0);
  const std::string good = ReadFile(path);
  WriteFile(path, good.substr(0, good.size() - 1));
  const MeasuredLines measured = Measure(*bytes_);
  EXPECT_THAT(measured.by_line, ElementsAre(4, 10, 1, 2));
  EXPECT_THAT(measured.warnings, ElementsAre(HasSubstr("wrong checksum; counted anew")));
  EXPECT_EQ(ReadFile(path), good);
}

TEST_F(MeasuredText, AFolderThatCannotBeWrittenToIsWarnedOf) {
  WriteFile(cache_, "in the way");
  const MeasuredLines measured = Measure(*bytes_);
  EXPECT_THAT(measured.by_line, ElementsAre(4, 10, 1, 2));
  EXPECT_THAT(measured.warnings, ElementsAre(HasSubstr("counted at every start")));
}

}  // namespace
}  // namespace paceline::data
