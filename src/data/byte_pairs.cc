#include "data/byte_pairs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "data/characters.h"
#include "data/pair_merging.h"

namespace paceline::data {

namespace {

constexpr std::size_t kLongestSegment = 64;  // bytes; bounds the work on text without blanks

std::uint64_t KeyOf(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

std::int32_t ByteId(char c) { return BytePairs::kFirstByte + static_cast<unsigned char>(c); }

// Bytes of the run of one class that `text` begins with.
std::size_t RunLength(std::string_view text, CharacterClass wanted) {
  std::size_t length = 0;
  while (length < text.size()) {
    const Character next = FirstCharacter(text.substr(length));
    if (ClassOf(next.code) != wanted || length + next.bytes > kLongestSegment) break;
    length += next.bytes;
  }
  return length;
}

// Bytes of the first segment of `text`, which is not empty.
std::size_t SegmentLength(std::string_view text) {
  const CharacterClass first = ClassOf(FirstCharacter(text).code);
  if (first != CharacterClass::kSpace) return RunLength(text, first);
  if (text.front() == ' ' && text.size() > 1) {
    const CharacterClass second = ClassOf(FirstCharacter(text.substr(1)).code);
    if (second != CharacterClass::kSpace) return 1 + RunLength(text.substr(1), second);
  }
  const std::size_t length = RunLength(text, first);
  // The last blank belongs to the word that follows.
  const bool word_follows = length < text.size() && text[length - 1] == ' ' && length > 1;
  return word_follows ? length - 1 : length;
}

}  // namespace

void SplitSegments(std::string_view text, const std::function<void(std::string_view)>& visit) {
  const std::string with_blank = " " + std::string(text);
  std::string_view rest = with_blank;
  while (!rest.empty()) {
    const std::size_t length = SegmentLength(rest);
    visit(rest.substr(0, length));
    rest.remove_prefix(length);
  }
}

BytePairs::BytePairs() : pieces_(kFewestPieces) {
  for (std::int32_t byte = 0; byte < 256; ++byte) {
    const std::string piece(1, static_cast<char>(byte));
    const std::int32_t id = kFirstByte + byte;
    pieces_[static_cast<std::size_t>(id)] = piece;
    ids_.emplace(piece, id);
  }
}

std::int32_t BytePairs::AddMerge(std::int32_t left, std::int32_t right) {
  const auto rank = static_cast<std::uint32_t>(merges_.size());
  const auto [entry, is_new] = by_pair_.try_emplace(KeyOf(left, right), Merge{.rank = rank});
  if (!is_new) return entry->second.piece;
  // Two pairs can make the same text, a-bc and ab-c; it is one piece all the same.
  std::string text = piece(left) + piece(right);
  const auto [known, is_new_text] = ids_.try_emplace(text, static_cast<std::int32_t>(size()));
  if (is_new_text) pieces_.push_back(std::move(text));
  merges_.emplace_back(left, right);
  entry->second.piece = known->second;
  return known->second;
}

Result<std::unique_ptr<BytePairs>> BytePairs::Learn(const WordCounts& counts, std::size_t pieces) {
  if (pieces < kFewestPieces) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("a byte-pair vocabulary has at least {} pieces (the bytes), "
                                     "not {}",
                                     kFewestPieces, pieces));
  }
  std::unique_ptr<BytePairs> learnt(new BytePairs());
  SymbolWords words;
  std::vector<std::uint32_t> symbols;
  for (const auto& [word, count] : counts) {
    symbols.clear();
    for (const char c : word) symbols.push_back(static_cast<std::uint32_t>(ByteId(c)));
    words.Add(symbols, count);
  }
  LearnMerges(std::move(words),
              {.merge =
                   [&](std::uint32_t left, std::uint32_t right) {
                     return static_cast<std::uint32_t>(learnt->AddMerge(
                         static_cast<std::int32_t>(left), static_cast<std::int32_t>(right)));
                   },
               .enough = [&] { return learnt->size() >= pieces; }});
  return learnt;
}

Result<std::unique_ptr<BytePairs>> BytePairs::FromFile(const VocabularyFile& file) {
  if (file.kind != kKind || file.lower_case) {
    return Status::Error(Code::kBadData,
                         fmt::format("line 2: a vocabulary of {}; wanted: {}", file.kind, kKind));
  }
  std::unique_ptr<BytePairs> made(new BytePairs());
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    const std::string_view entry = file.entries[i];
    const std::size_t blank = std::min(entry.find(' '), entry.size());
    const auto left = UnescapePiece(entry.substr(0, blank));
    const auto right = UnescapePiece(entry.substr(std::min(blank + 1, entry.size())));
    if (!left.ok() || !right.ok()) {
      return BadEntry(i, (left.ok() ? right : left).status().message());
    }
    const auto left_id = made->ids_.find(*left), right_id = made->ids_.find(*right);
    if (left_id == made->ids_.end() || right_id == made->ids_.end()) {
      return BadEntry(i, "not two pieces that are bytes or were merged before");
    }
    made->AddMerge(left_id->second, right_id->second);
    if (made->merges_.size() != i + 1) return BadEntry(i, "the same merge as before");
  }
  return made;
}

VocabularyFile BytePairs::ToFile(std::string learnt_from) const {
  VocabularyFile file{.kind = std::string(kKind), .learnt_from = std::move(learnt_from)};
  for (const auto& [left, right] : merges_) {
    file.entries.push_back(EscapePiece(piece(left)) + " " + EscapePiece(piece(right)));
  }
  return file;
}

// Applies merges in the order in which they were learnt; equal ones from left to right.
void BytePairs::EncodeWord(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t> symbols;
  for (const char c : word) symbols.push_back(ByteId(c));
  for (;;) {
    Merge best{.rank = std::numeric_limits<std::uint32_t>::max()};
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = by_pair_.find(KeyOf(symbols[i], symbols[i + 1]));
      if (found != by_pair_.end() && found->second.rank < best.rank) {
        best = found->second;
        place = i;
      }
    }
    if (best.rank == std::numeric_limits<std::uint32_t>::max()) break;
    symbols[place] = best.piece;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void BytePairs::Encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  SplitSegments(text, [&](std::string_view word) {
    if (cache_.Find(word, ids)) return;
    const std::size_t before = ids.size();
    EncodeWord(word, ids);
    cache_.Add(word, std::span(ids).subspan(before));
  });
}

std::string BytePairs::Decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id >= 0 && static_cast<std::size_t>(id) < size()) text += piece(id);
  }
  return text.starts_with(' ') ? text.substr(1) : text;
}

}  // namespace paceline::data
