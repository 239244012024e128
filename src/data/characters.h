#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::data {

// What text is cut by. A rough reading of Unicode without its tables: letters are what is neither
// white space nor a digit nor one of the blocks of punctuation and symbols.
enum class CharacterClass { kSpace, kLetter, kDigit, kOther };

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  // that it takes in the text
  bool valid = true;      // false: not UTF-8, one byte, code U+FFFD
};

// The first character of a text, which is not empty.
Character FirstCharacter(std::string_view text);

// Where UTF-8 ends to be valid (RFC 3629: no surrogates, no overlong forms); npos when nowhere.
std::size_t FirstInvalidUtf8(std::string_view text);

CharacterClass ClassOf(char32_t code);
// Written without blanks between words: Chinese characters.
bool IsIdeograph(char32_t code);
// Latin, Greek and Cyrillic letters; all others stay.
char32_t LowerCase(char32_t code);
void AppendUtf8(char32_t code, std::string& text);

}  // namespace paceline::data
