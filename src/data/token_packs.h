#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/translation_source.h"

namespace paceline::data {

struct PackOptions {
  std::size_t tokens = 0;      // of a pack, padding included, on either side
  std::uint64_t seed = 0;      // which sentences meet in a pool
  std::size_t pool = 1 << 14;  // sentences that are sorted together
};

// Packs of sentences of similar length, so that little of a batch is padding: sentences are
// shuffled, cut into pools, each pool is sorted by length and cut into packs. Every sentence is in
// exactly one pack. A function of lengths and options. Immutable value.
class TokenPacks {
 public:
  TokenPacks(const TranslationSource& source, const PackOptions& options);

  std::size_t size() const { return ends_.size(); }
  // Indices of sentences. Sentences longer than `tokens` are alone.
  std::span<const std::uint64_t> pack(std::size_t number) const;

 private:
  void Cut(std::span<const std::uint64_t> pool, const TranslationSource& source,
           std::size_t tokens);

  std::vector<std::uint64_t> sentences_;
  std::vector<std::size_t> ends_;  // of packs, in sentences_
};

}  // namespace paceline::data
