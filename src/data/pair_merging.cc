#include "data/pair_merging.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

namespace paceline::data {

namespace {

std::uint64_t KeyOf(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

struct Candidate {
  std::uint64_t count = 0;
  std::uint64_t key = 0;

  // The order of a heap: the last comes out first.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.count != b.count ? a.count < b.count : a.key > b.key;
  }
};

// The pairs of all words. Thread-compatible.
class PairTable {
 public:
  explicit PairTable(SymbolWords words) : words_(std::move(words)) {
    for (std::uint32_t number = 0; number < words_.words.size(); ++number) {
      const SymbolWords::Word& word = words_.words[number];
      for (std::uint32_t i = 0; i + 1 < word.length; ++i) {
        const std::uint32_t* at = &words_.symbols[word.begin + i];
        Raise(KeyOf(at[0], at[1]), number);
      }
    }
    PushRaised();
  }

  // Takes the most frequent pair out; false when none has `min_count`.
  bool Take(std::uint64_t min_count, std::uint64_t& key) {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      if (best.count < min_count) return false;
      heap_.pop();
      const auto found = pairs_.find(best.key);
      if (found == pairs_.end() || found->second.count > best.count) continue;  // told better since
      if (found->second.count < best.count) {  // it fell since; it may still be the best
        heap_.push({found->second.count, best.key});
        continue;
      }
      key = best.key;
      return true;
    }
    return false;
  }

  // Makes every occurrence of the pair the symbol `merged`.
  void Merge(std::uint64_t key, std::uint32_t merged) {
    const std::vector<std::uint32_t> numbers = std::move(pairs_.extract(key).mapped().words);
    for (const std::uint32_t number : numbers) MergeWithin(number, key, merged);
    PushRaised();
  }

 private:
  struct Pair {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> words;  // in which it may be; some more than once, some no longer
  };

  void Raise(std::uint64_t key, std::uint32_t number) {
    Pair& pair = pairs_[key];
    pair.count += words_.words[number].count;
    if (pair.words.empty() || pair.words.back() != number) pair.words.push_back(number);
    raised_.push_back(key);
  }

  void Lower(std::uint64_t key, std::uint64_t count) {
    const auto found = pairs_.find(key);
    if (found != pairs_.end()) found->second.count -= count;  // not there: it is being merged
  }

  void PushRaised() {
    std::ranges::sort(raised_);
    raised_.erase(std::unique(raised_.begin(), raised_.end()), raised_.end());
    for (const std::uint64_t key : raised_) {
      const auto found = pairs_.find(key);
      if (found != pairs_.end()) heap_.push({found->second.count, key});
    }
    raised_.clear();
  }

  // From left to right; after each replacement the counts are those of the word as it is then.
  void MergeWithin(std::uint32_t number, std::uint64_t key, std::uint32_t merged) {
    SymbolWords::Word& word = words_.words[number];
    const auto left = static_cast<std::uint32_t>(key >> 32);
    const auto right = static_cast<std::uint32_t>(key);
    std::uint32_t* symbols = &words_.symbols[word.begin];
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < word.length; ++i) {
      const bool here = i + 1 < word.length && symbols[i] == left && symbols[i + 1] == right;
      if (!here) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        Lower(KeyOf(symbols[kept - 1], left), word.count);
        Raise(KeyOf(symbols[kept - 1], merged), number);
      }
      if (i + 2 < word.length) {
        Lower(KeyOf(right, symbols[i + 2]), word.count);
        Raise(KeyOf(merged, symbols[i + 2]), number);
      }
      symbols[kept++] = merged;
      ++i;
    }
    word.length = kept;
  }

  SymbolWords words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> heap_;  // holds every pair with at least its count
  std::vector<std::uint64_t> raised_;    // pairs whose count rose since the last PushRaised
};

}  // namespace

void SymbolWords::Add(std::span<const std::uint32_t> word, std::uint64_t count) {
  words.push_back({symbols.size(), static_cast<std::uint32_t>(word.size()), count});
  symbols.insert(symbols.end(), word.begin(), word.end());
}

void LearnMerges(SymbolWords words, const MergeRules& rules) {
  PairTable pairs(std::move(words));
  std::uint64_t key = 0;
  while (!rules.enough() && pairs.Take(rules.min_count, key)) {
    pairs.Merge(
        key, rules.merge(static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)));
  }
}

}  // namespace paceline::data
