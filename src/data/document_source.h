#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::data {

// Documents of sentences of pieces of words. Immutable after opening and thread-safe. Does not make
// pairs or masks; see masked_batches.h.
class DocumentSource {
 public:
  virtual ~DocumentSource() = default;

  virtual std::uint64_t documents() const = 0;
  virtual std::uint32_t sentences(std::uint64_t document) const = 0;  // at least one
  // Appends the ids of a sentence: at least one, none of a special sense but "unknown".
  virtual Status Read(std::uint64_t document, std::uint32_t sentence,
                      std::vector<std::int32_t>& ids) const = 0;
  // How many ids that are.
  virtual Result<std::size_t> Length(std::uint64_t document, std::uint32_t sentence) const {
    std::vector<std::int32_t> ids;
    PACELINE_TRY(Read(document, sentence, ids));
    return ids.size();
  }
  virtual std::uint32_t vocabulary() const = 0;  // ids are below
  // Equal texts mean equal data: workers compare them when they join.
  virtual std::string Fingerprint() const = 0;
  virtual std::uint64_t BadRecords() const { return 0; }
};

}  // namespace paceline::data
