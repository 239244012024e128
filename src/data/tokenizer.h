#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary_file.h"

namespace paceline::data {

// From text to numbers of pieces and back. Immutable but for a cache of words, thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::size_t size() const = 0;  // pieces, those with a special sense included
  // Appends; every id is below size(), and none of a special sense but "unknown".
  virtual void Encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  // Ids with a special sense, or that no piece has, are left out.
  virtual std::string Decode(std::span<const std::int32_t> ids) const = 0;

  virtual VocabularyFile ToFile(std::string learnt_from) const = 0;
};

}  // namespace paceline::data
