#include "data/characters.h"

#include <algorithm>
#include <array>

namespace paceline::data {

namespace {

struct Range {
  char32_t first, last;
};

// Punctuation and symbols outside of ASCII, by block.
constexpr std::array kOtherRanges{
    Range{0x80, 0xA9},     Range{0xAB, 0xB4},      Range{0xB6, 0xB9},     Range{0xBB, 0xBF},
    Range{0xD7, 0xD7},     Range{0xF7, 0xF7},      Range{0x2010, 0x2BFF}, Range{0x3001, 0x3004},
    Range{0x3008, 0x3020}, Range{0xFE30, 0xFE6F},  Range{0xFF01, 0xFF0F}, Range{0xFF1A, 0xFF20},
    Range{0xFFFD, 0xFFFD}, Range{0x1F000, 0x1FAFF}};
constexpr std::array kIdeographs{Range{0x3400, 0x4DBF}, Range{0x4E00, 0x9FFF},
                                 Range{0xF900, 0xFAFF}, Range{0x20000, 0x2FA1F}};

template <std::size_t Ranges>
bool IsIn(const std::array<Range, Ranges>& ranges, char32_t code) {
  return std::ranges::any_of(
      ranges, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

// How many bytes a character with this first byte has; 0: none has.
std::size_t LengthOf(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

}  // namespace

Character FirstCharacter(std::string_view text) {
  constexpr Character kInvalid{0xFFFD, 1, false};
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = LengthOf(lead);
  if (bytes == 0 || bytes > text.size()) return kInvalid;
  char32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80) return kInvalid;
    code = code << 6 | (next & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};  // smaller: overlong
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[bytes] || code > 0x10FFFF || surrogate) return kInvalid;
  return {code, bytes, true};
}

std::size_t FirstInvalidUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = FirstCharacter(text.substr(at));
    if (!character.valid) return at;
    at += character.bytes;
  }
  return std::string_view::npos;
}

CharacterClass ClassOf(char32_t code) {
  if (code < 0x80) {
    if (code <= ' ' || code == 0x7F) return CharacterClass::kSpace;  // control characters too
    if (code >= '0' && code <= '9') return CharacterClass::kDigit;
    const char32_t lower = code | 0x20U;
    return lower >= 'a' && lower <= 'z' ? CharacterClass::kLetter : CharacterClass::kOther;
  }
  if (code == 0x85 || code == 0xA0 || code == 0x3000 || (code >= 0x2000 && code <= 0x200F) ||
      (code >= 0x2028 && code <= 0x202F)) {
    return CharacterClass::kSpace;
  }
  return IsIn(kOtherRanges, code) ? CharacterClass::kOther : CharacterClass::kLetter;
}

bool IsIdeograph(char32_t code) { return code >= 0x3400 && IsIn(kIdeographs, code); }

char32_t LowerCase(char32_t code) {
  const auto within = [code](char32_t first, char32_t last) {
    return code >= first && code <= last;
  };
  if (within('A', 'Z') || (within(0xC0, 0xDE) && code != 0xD7)) return code + 0x20;
  // In Latin Extended capital and small letter alternate, with the capital on odd codes in between.
  if (within(0x139, 0x148) || within(0x179, 0x17E)) return code + code % 2;
  if (code == 0x130 || code == 0x178) return code == 0x130 ? 'i' : 0xFF;
  if (within(0x100, 0x137) || within(0x14A, 0x177) || within(0x1E00, 0x1EFF)) return code | 1U;
  if (within(0x391, 0x3A9)) return code + 0x20;  // Greek
  if (within(0x410, 0x42F)) return code + 0x20;  // Cyrillic
  if (within(0x400, 0x40F)) return code + 0x50;
  return code;
}

void AppendUtf8(char32_t code, std::string& text) {
  const auto add = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto rest = [&](unsigned shift) { add(0x80U | (code >> shift & 0x3FU)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0U | code >> 6);
    return rest(0);
  }
  if (code < 0x10000) {
    add(0xE0U | code >> 12);
    rest(6);
    return rest(0);
  }
  add(0xF0U | code >> 18);
  rest(12);
  rest(6);
  rest(0);
}

}  // namespace paceline::data
