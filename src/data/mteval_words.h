#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::data {

// The words that BLEU counts in a plain text: as mteval-v13a, WMT's script, cuts them, and
// sacreBLEU by default. Signs are words of their own, full stops and commas between digits are not,
// and a few entities of HTML become what they mean. The text need not be UTF-8.
std::vector<std::string> MtevalWords(std::string_view text);

}  // namespace paceline::data
