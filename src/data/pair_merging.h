#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace paceline::data {

// Words as sequences of symbols, with how often each is in the text. All in one array: a text has
// millions of different words.
struct SymbolWords {
  std::vector<std::uint32_t> symbols;
  struct Word {
    std::size_t begin = 0;  // in symbols
    std::uint32_t length = 0;
    std::uint64_t count = 0;
  };
  std::vector<Word> words;

  void Add(std::span<const std::uint32_t> word, std::uint64_t count);
};

struct MergeRules {
  // Which symbol a pair becomes: a new one, or one that is there and means the same.
  std::function<std::uint32_t(std::uint32_t left, std::uint32_t right)> merge;
  std::function<bool()> enough;  // asked before each merge
  std::uint64_t min_count = 2;   // of a pair; rarer ones are left alone
};

// Byte-pair encoding (Gage 1994; Sennrich, Haddow and Birch 2016): again and again the most
// frequent pair of neighbours becomes one symbol. Of equally frequent pairs the one with the
// smaller left symbol, then right symbol, comes first, so the merges are a function of the counts
// alone. Counts are kept up to date instead of counted anew: a merge costs what it changes.
void LearnMerges(SymbolWords words, const MergeRules& rules);

}  // namespace paceline::data
