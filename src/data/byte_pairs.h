#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "base/status.h"
#include "data/text_vocabulary.h"
#include "data/tokenizer.h"
#include "data/word_cache.h"

namespace paceline::data {

// Cuts text into words: a run of letters, of digits or of other signs, with the blank before it if
// there is one; further white space is a word of its own. Long runs are cut at 64 bytes. The words
// put together are a blank and the text.
void SplitSegments(std::string_view text, const std::function<void(std::string_view)>& visit);

// Byte-pair encoding over the bytes of UTF-8: whatever the text, Decode(Encode(text)) == text.
// Ids: 0 <pad>, 1 <s>, 2 </s>, 3 <unk> (never produced), 4 to 259 the bytes, then the merges in the
// order in which they were learnt.
class BytePairs final : public Tokenizer {
 public:
  static constexpr std::int32_t kPad = 0, kStart = 1, kEnd = 2, kUnknown = 3, kFirstByte = 4;
  static constexpr std::size_t kFewestPieces = 4 + 256;
  static constexpr std::string_view kKind = "byte-pairs";

  // From how often each word (as SplitSegments cuts them) is in a text. At most `pieces`; fewer
  // when no pair is left that occurs twice. kInvalidArgument for less than kFewestPieces.
  static Result<std::unique_ptr<BytePairs>> Learn(const WordCounts& counts, std::size_t pieces);
  // kBadData names the line.
  static Result<std::unique_ptr<BytePairs>> FromFile(const VocabularyFile& file);

  std::size_t size() const override { return pieces_.size(); }
  void Encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string Decode(std::span<const std::int32_t> ids) const override;
  VocabularyFile ToFile(std::string learnt_from) const override;

 private:
  struct Merge {
    std::uint32_t rank = 0;  // smaller: learnt earlier, applied earlier
    std::int32_t piece = 0;
  };

  BytePairs();
  // The piece that two become; notes the merge unless it is known.
  std::int32_t AddMerge(std::int32_t left, std::int32_t right);
  void EncodeWord(std::string_view word, std::vector<std::int32_t>& ids) const;
  const std::string& piece(std::int32_t id) const { return pieces_[static_cast<std::size_t>(id)]; }

  std::vector<std::string> pieces_;  // by id; empty for those with a special sense
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> ids_;
  std::vector<std::pair<std::int32_t, std::int32_t>> merges_;  // by rank
  std::unordered_map<std::uint64_t, Merge> by_pair_;
  mutable WordCache cache_;
};

}  // namespace paceline::data
