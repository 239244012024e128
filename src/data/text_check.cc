#include "data/text_check.h"

#include <fmt/format.h>

#include "data/characters.h"

namespace paceline::data {

bool IsBlank(std::string_view line) {
  while (!line.empty()) {
    const Character next = FirstCharacter(line);
    if (ClassOf(next.code) != CharacterClass::kSpace) return false;
    line.remove_prefix(next.bytes);
  }
  return true;
}

Status CheckUtf8(std::string_view line) {
  const std::size_t invalid = FirstInvalidUtf8(line);
  if (invalid == std::string_view::npos) return {};
  return Status::Error(Code::kBadData, fmt::format("byte {} of the line is not UTF-8", invalid));
}

Status CheckSentence(std::string_view line) {
  PACELINE_TRY(CheckUtf8(line));
  if (IsBlank(line)) return Status::Error(Code::kBadData, "an empty line");
  return {};
}

}  // namespace paceline::data
