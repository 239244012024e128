#include "cli/command.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

namespace paceline::cli {

int Fail(std::string_view program, const Status& status) {
  std::string text = status.message();
  for (char& c : text) {
    if (c == '\n') c = ' ';  // one line, whatever a library wrote
  }
  fmt::print(stderr, "{}: error: {}\n", program, text);
  return ExitCode(status.code());
}

Status WrongArguments(std::string text) {
  return Status::Error(Code::kInvalidArgument, std::move(text));
}

std::string ExecutableDirectory() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : path.parent_path().string();
}

}  // namespace paceline::cli
