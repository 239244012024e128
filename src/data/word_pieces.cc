#include "data/word_pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "data/characters.h"
#include "data/pair_merging.h"

namespace paceline::data {

namespace {

constexpr std::string_view kGoesOn = "##";
constexpr std::ptrdiff_t kLongestWord = 100;   // characters, as in BERT's own tokenizer
constexpr std::size_t kMostCharacters = 2000;  // that get a piece

// The characters of a word as pieces: "h", "##a", "##t".
std::vector<std::string> CharactersOf(std::string_view word) {
  std::vector<std::string> pieces;
  while (!word.empty()) {
    const std::size_t bytes = FirstCharacter(word).bytes;
    pieces.push_back(std::string(pieces.empty() ? "" : kGoesOn) +
                     std::string(word.substr(0, bytes)));
    word.remove_prefix(bytes);
  }
  return pieces;
}

// The most frequent characters, in alphabetical order.
std::vector<std::string> Alphabet(const WordCounts& counts, std::size_t most) {
  std::map<std::string, std::uint64_t> found;
  for (const auto& [word, count] : counts) {
    for (const std::string& character : CharactersOf(word)) found[character] += count;
  }
  std::vector<std::pair<std::string, std::uint64_t>> sorted(found.begin(), found.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           &std::pair<std::string, std::uint64_t>::second);
  sorted.resize(std::min(sorted.size(), most));
  std::vector<std::string> alphabet;
  alphabet.reserve(sorted.size());
  for (auto& [character, count] : sorted) alphabet.push_back(std::move(character));
  std::ranges::sort(alphabet);
  return alphabet;
}

}  // namespace

void SplitWords(std::string_view text, LetterCase letters,
                const std::function<void(std::string_view)>& visit) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) visit(word);
    word.clear();
  };
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    text.remove_prefix(next.bytes);
    const CharacterClass kind = ClassOf(next.code);
    const bool alone = kind == CharacterClass::kOther || IsIdeograph(next.code);
    if (kind == CharacterClass::kSpace || alone) end_word();
    if (kind == CharacterClass::kSpace) continue;
    AppendUtf8(letters == LetterCase::kLower ? LowerCase(next.code) : next.code, word);
    if (alone) end_word();
  }
  end_word();
}

std::int32_t WordPieces::Add(std::string_view piece) {
  const auto [known, is_new] =
      ids_.try_emplace(std::string(piece), static_cast<std::int32_t>(size()));
  if (is_new) pieces_.emplace_back(piece);
  longest_ = std::max(longest_, piece.size());
  return known->second;
}

Result<std::unique_ptr<WordPieces>> WordPieces::Learn(const WordCounts& counts, std::size_t pieces,
                                                      LetterCase letters) {
  if (pieces < kFewestPieces) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("a vocabulary of word pieces has at least {}, not {}", kFewestPieces, pieces));
  }
  std::unique_ptr<WordPieces> learnt(new WordPieces(letters));
  for (const std::string& character : Alphabet(counts, std::min(pieces / 2, kMostCharacters))) {
    learnt->Add(character);
  }
  SymbolWords words;
  for (const auto& [word, count] : counts) {
    std::vector<std::uint32_t> symbols;
    bool known = true;
    for (const std::string& character : CharactersOf(word)) {
      const auto found = learnt->ids_.find(character);
      known = known && found != learnt->ids_.end();
      if (known) symbols.push_back(static_cast<std::uint32_t>(found->second));
    }
    if (known && std::ssize(symbols) <= kLongestWord) words.Add(symbols, count);
  }
  LearnMerges(
      std::move(words),
      {.merge =
           [&](std::uint32_t left, std::uint32_t right) {
             const std::string& first = learnt->piece(static_cast<std::int32_t>(left));
             const std::string& second = learnt->piece(static_cast<std::int32_t>(right));
             return static_cast<std::uint32_t>(learnt->Add(first + second.substr(kGoesOn.size())));
           },
       .enough = [&] { return learnt->size() >= pieces; }});
  return learnt;
}

Result<std::unique_ptr<WordPieces>> WordPieces::FromFile(const VocabularyFile& file) {
  if (file.kind != kKind) {
    return Status::Error(Code::kBadData,
                         fmt::format("line 2: a vocabulary of {}; wanted: {}", file.kind, kKind));
  }
  std::unique_ptr<WordPieces> made(
      new WordPieces(file.lower_case ? LetterCase::kLower : LetterCase::kKeep));
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    const auto piece = UnescapePiece(file.entries[i]);
    if (!piece.ok()) return BadEntry(i, piece.status().message());
    if (piece->empty() || *piece == kGoesOn) return BadEntry(i, "a piece without a character");
    made->Add(*piece);
    if (made->pieces_.size() != i + 1) return BadEntry(i, "the same piece as before");
  }
  return made;
}

VocabularyFile WordPieces::ToFile(std::string learnt_from) const {
  VocabularyFile file{.kind = std::string(kKind),
                      .lower_case = letters_ == LetterCase::kLower,
                      .learnt_from = std::move(learnt_from)};
  for (const std::string& piece : pieces_) file.entries.push_back(EscapePiece(piece));
  return file;
}

void WordPieces::EncodeWord(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  std::string candidate;
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; };
  if (std::ranges::count_if(word, begins) > kLongestWord) return ids.push_back(kUnknown);
  for (std::string_view rest = word; !rest.empty();) {
    const std::string_view prefix = rest.size() == word.size() ? "" : kGoesOn;
    std::size_t length = std::min(rest.size(), longest_);
    auto found = ids_.end();
    for (; length > 0 && found == ids_.end(); --length) {
      candidate = prefix;
      candidate += rest.substr(0, length);
      found = ids_.find(candidate);
    }
    if (found == ids_.end()) {
      ids.resize(before);
      ids.push_back(kUnknown);
      return;
    }
    ids.push_back(found->second);
    rest.remove_prefix(length + 1);  // the loop went one further
  }
}

void WordPieces::Encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  SplitWords(text, letters_, [&](std::string_view word) {
    if (cache_.Find(word, ids)) return;
    const std::size_t before = ids.size();
    EncodeWord(word, ids);
    cache_.Add(word, std::span(ids).subspan(before));
  });
}

std::string WordPieces::Decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < kFirstPiece || static_cast<std::size_t>(id) >= size()) continue;
    const std::string_view next = piece(id);
    if (next.starts_with(kGoesOn) && !text.empty() && next.size() > kGoesOn.size()) {
      text += next.substr(kGoesOn.size());
    } else {
      (text += text.empty() ? "" : " ") += next;
    }
  }
  return text;
}

}  // namespace paceline::data
