#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// Rows of cells as aligned UTF-8 text, three blanks between columns. `alignment` has an 'l' or an
// 'r' for each column; columns beyond it are to the right.
std::string AlignColumns(const std::vector<std::vector<std::string>>& rows,
                         std::string_view alignment = "l");

}  // namespace paceline
