#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::data {

// A vocabulary of pieces of words as a text file (docs/formats.md): a header of four lines, one
// entry a line, and a checksum. What an entry means is the business of its kind.
struct VocabularyFile {
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  static constexpr std::size_t kFirstEntryLine = 5;  // lines are counted from 1

  std::string kind;         // "byte-pairs" or "word-pieces"
  bool lower_case = false;  // text is made lower case first
  std::string learnt_from;  // which text, as letters and digits
  std::vector<std::string> entries;

  std::string ToText() const;
  // kBadData names the line.
  static Result<VocabularyFile> Parse(std::string_view text);

  static Result<VocabularyFile> Load(const std::filesystem::path& path);
  // Whole or not at all, also when several processes do it at once.
  Status Save(const std::filesystem::path& path) const;
};

// Bytes that are not printable ASCII, blanks and backslashes become \xHH.
std::string EscapePiece(std::string_view piece);
Result<std::string> UnescapePiece(std::string_view text);

// "line 7: ...", of the entry with this number.
Status BadEntry(std::size_t entry, std::string_view what);

}  // namespace paceline::data
