// The first half of the input is the text that a vocabulary is learnt from, the second is encoded:
// byte pairs give back exactly the same bytes, word pieces have every id that they use.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "data/byte_pairs.h"
#include "data/word_pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline;
  const std::string_view all(reinterpret_cast<const char*>(bytes), size);
  const std::string_view learnt = all.substr(0, size / 2), text = all.substr(size / 2);
  data::WordCounts segments, words;
  data::SplitSegments(learnt, [&](std::string_view word) { ++segments[std::string(word)]; });
  data::SplitWords(learnt, data::LetterCase::kLower,
                   [&](std::string_view word) { ++words[std::string(word)]; });
  const auto pairs = data::BytePairs::Learn(segments, 300);
  const auto pieces = data::WordPieces::Learn(words, 64, data::LetterCase::kLower);
  PACELINE_CHECK(pairs.ok() && pieces.ok(), "nothing was learnt");
  PACELINE_CHECK((*pairs)->size() <= 300 && (*pieces)->size() <= 64, "too many pieces");
  std::vector<std::int32_t> ids;
  (*pairs)->Encode(text, ids);
  PACELINE_CHECK((*pairs)->Decode(ids) == text, "other bytes came back");
  ids.clear();
  (*pieces)->Encode(text, ids);
  for (const std::int32_t id : ids) {
    PACELINE_CHECK(id > 0 && static_cast<std::size_t>(id) < (*pieces)->size(), "no such piece");
  }
  return 0;
}
