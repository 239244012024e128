#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "data/text_vocabulary.h"

namespace paceline::data {

// The pieces of words that were asked for before. Text repeats its words, and frequent ones come
// early: once full it takes no more. Thread-safe; in parts, so that threads seldom meet.
class WordCache {
 public:
  // Appends the word's pieces; false when it does not know the word.
  bool Find(std::string_view word, std::vector<std::int32_t>& ids) const;
  void Add(std::string_view word, std::span<const std::int32_t> ids);

 private:
  static constexpr std::size_t kParts = 16;
  static constexpr std::size_t kWordsOfPart = 1 << 16;  // about 100 MB in all

  static constexpr std::size_t kLongestWord = 64;  // bytes; longer ones seldom come again

  struct Part {
    mutable Mutex mu;
    std::unordered_map<std::string, std::vector<std::int32_t>, TextHash, std::equal_to<>> words
        PACELINE_GUARDED_BY(mu);
  };
  static std::size_t PartOf(std::string_view word) { return TextHash()(word) >> 32 & (kParts - 1); }

  std::array<Part, kParts> parts_;
};

}  // namespace paceline::data
