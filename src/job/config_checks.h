#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>

#include <fmt/format.h>

#include "base/status.h"

// What the checks of a configuration are made of. Each names the flag.
namespace paceline::job {

inline Status OneOf(const char* flag, const std::string& value,
                    std::initializer_list<const char*> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
  std::string list;
  for (const char* name : allowed) list += list.empty() ? name : std::string(", ") + name;
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("{} is '{}'; it takes one of: {}", flag, value, list));
}

template <typename T>
Status Within(const char* flag, T value, T low, T high) {
  if (value >= low && value <= high) return {};
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("{} is {}; it must be {} to {}", flag, value, low, high));
}

}  // namespace paceline::job
