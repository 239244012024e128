#include "data/word_cache.h"

namespace paceline::data {

bool WordCache::Find(std::string_view word, std::vector<std::int32_t>& ids) const {
  const Part& part = parts_[PartOf(word)];
  MutexLock lock(part.mu);
  const auto found = part.words.find(word);
  if (found == part.words.end()) return false;
  ids.insert(ids.end(), found->second.begin(), found->second.end());
  return true;
}

void WordCache::Add(std::string_view word, std::span<const std::int32_t> ids) {
  if (word.size() > kLongestWord) return;
  Part& part = parts_[PartOf(word)];
  MutexLock lock(part.mu);
  if (part.words.size() < kWordsOfPart) {
    part.words.try_emplace(std::string(word), ids.begin(), ids.end());
  }
}

}  // namespace paceline::data
