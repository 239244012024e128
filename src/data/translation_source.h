#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::data {

// Ids of pieces, without those that mark beginning and end.
struct SentencePair {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> target;
};

struct PairLengths {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
};

// Sentences with their translations, addressed by index. Immutable after opening and thread-safe.
// Does not shuffle, pack or pad; see translation_batches.h.
class TranslationSource {
 public:
  virtual ~TranslationSource() = default;

  virtual std::uint64_t size() const = 0;
  // index < size(). Neither side is empty.
  virtual Status Read(std::uint64_t index, SentencePair& pair) const = 0;
  virtual PairLengths Lengths(std::uint64_t index) const = 0;
  // Equal texts mean equal data: workers compare them when they join.
  virtual std::string Fingerprint() const = 0;
  virtual std::uint64_t BadRecords() const { return 0; }
};

}  // namespace paceline::data
