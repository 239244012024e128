#pragma once

#include <string_view>

#include "base/status.h"

namespace paceline::data {

// A line of a file with the line ends of Windows.
constexpr std::string_view WithoutReturn(std::string_view line) {
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

// No character but white space.
bool IsBlank(std::string_view line);

// kBadData for what is not UTF-8, or blank.
Status CheckUtf8(std::string_view line);
Status CheckSentence(std::string_view line);

}  // namespace paceline::data
