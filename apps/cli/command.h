#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::cli {

// Prints "paceline train: error: ..." on stderr, one line, and gives the documented exit code.
int Fail(std::string_view program, const Status& status);

// Arguments that cannot be meant.
Status WrongArguments(std::string text);

// The directory of the running executable, where its siblings are.
std::string ExecutableDirectory();

}  // namespace paceline::cli
