#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "base/status.h"
#include "data/text_vocabulary.h"
#include "data/tokenizer.h"
#include "data/word_cache.h"

namespace paceline::data {

enum class LetterCase { kKeep, kLower };

// Cuts text into words as BERT does: at white space, and every sign of punctuation and every
// Chinese character is a word of its own. Accents stay.
void SplitWords(std::string_view text, LetterCase letters,
                const std::function<void(std::string_view)>& visit);

// Word pieces (Devlin et al. 2019): a word is cut by taking the longest piece that fits, again and
// again; "##" marks pieces that go on with a word. A word with a character that no piece has, or of
// more than 100 characters, is unknown. Not exact: white space and unknown words are lost.
// Ids: 0 [PAD], 1 [UNK], 2 [CLS], 3 [SEP], 4 [MASK], then characters, then learnt pieces.
class WordPieces final : public Tokenizer {
 public:
  static constexpr std::int32_t kPad = 0, kUnknown = 1, kClass = 2, kSeparator = 3, kMask = 4,
                                kFirstPiece = 5;
  static constexpr std::size_t kFewestPieces = 16;
  static constexpr std::string_view kKind = "word-pieces";

  // From how often each word (as SplitWords cuts them) is in a text, by merging pairs as byte-pair
  // encoding does, over characters. At most `pieces`; the most frequent characters get one, up to
  // half of all. kInvalidArgument for less than kFewestPieces.
  static Result<std::unique_ptr<WordPieces>> Learn(const WordCounts& counts, std::size_t pieces,
                                                   LetterCase letters);
  // kBadData names the line.
  static Result<std::unique_ptr<WordPieces>> FromFile(const VocabularyFile& file);

  std::size_t size() const override { return kFirstPiece + pieces_.size(); }
  void Encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string Decode(std::span<const std::int32_t> ids) const override;
  VocabularyFile ToFile(std::string learnt_from) const override;
  LetterCase letters() const { return letters_; }

 private:
  explicit WordPieces(LetterCase letters) : letters_(letters) {}
  // The id of a piece, "##" included; a new one when there is none.
  std::int32_t Add(std::string_view piece);
  const std::string& piece(std::int32_t id) const {
    return pieces_[static_cast<std::size_t>(id - kFirstPiece)];
  }
  void EncodeWord(std::string_view word, std::vector<std::int32_t>& ids) const;

  LetterCase letters_;
  std::vector<std::string> pieces_;  // from kFirstPiece on, with "##"
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> ids_;
  std::size_t longest_ = 0;  // bytes of a piece, "##" included
  mutable WordCache cache_;
};

}  // namespace paceline::data
