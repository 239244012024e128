#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::data {

// Sentences of word ids, addressed by index. Immutable after opening and thread-safe. Does not
// shuffle, subsample or make pairs; see Subsampler and sparse/word2vec.h.
class TextSource {
 public:
  virtual ~TextSource() = default;

  virtual std::uint64_t sentences() const = 0;
  // How often each word is in the text, by id; ids are in [0, counts().size()). A source that makes
  // up its text may give what is to be expected.
  virtual const std::vector<std::uint64_t>& counts() const = 0;

  // sentence < sentences(); overwrites `words`.
  virtual Status Read(std::uint64_t sentence, std::vector<std::int32_t>& words) const = 0;

  // Equal texts mean equal data: workers compare them when they join.
  virtual std::string Fingerprint() const = 0;
};

}  // namespace paceline::data
