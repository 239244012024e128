#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/text_lines.h"
#include "data/tokenizer.h"

namespace paceline::data {

// How many pieces each line of a text has. A plain value.
struct PieceLengths {
  std::uint64_t made_of = 0;  // hash of text and vocabulary
  std::vector<std::uint32_t> by_line;
  friend bool operator==(const PieceLengths&, const PieceLengths&) = default;
};

// The format is in docs/formats.md. kBadData for what is damaged, kMismatch for another version.
std::vector<std::byte> EncodePieceLengths(const PieceLengths& lengths);
Result<PieceLengths> DecodePieceLengths(std::span<const std::byte> bytes);

struct MeasuredLines {
  std::vector<std::uint32_t> by_line;
  std::vector<std::string> warnings;  // why they could not be kept, or were counted anew
};

// Counts the pieces of all lines, or takes the counts that were kept in `folder`: encoding a text
// takes ten times as long as reading it. The file's name carries a hash of text and vocabulary, so
// other ones never meet old counts. A file that cannot be read or written costs time, never the
// run.
Result<MeasuredLines> MeasureLines(const TextLines& text, const Tokenizer& tokenizer,
                                   const std::filesystem::path& folder);

}  // namespace paceline::data
