#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"

namespace paceline::job {

// Environment variables as launchers set them: numbers are checked, errors name the variable and
// its value, and an empty value counts as not set. Thread-compatible; borrows `getenv`.
class LaunchVariables {
 public:
  explicit LaunchVariables(const GetEnv& getenv) : getenv_(getenv) {}

  std::optional<std::string> Text(const char* name) const;
  bool Has(const char* name) const { return Text(name).has_value(); }
  // The first of the names that is set; the first of all when none is.
  const char* FirstSet(std::initializer_list<const char*> names) const;
  // "True", "true" or "1".
  bool IsTrue(const char* name) const;

  Result<std::optional<std::uint64_t>> Number(const char* name) const;
  // An error when it is not set; `because` names the variable that made it necessary.
  Result<std::uint64_t> RequiredNumber(const char* name, const char* because) const;
  // 1 to 65535.
  Result<std::optional<std::uint16_t>> Port(const char* name) const;
  Result<std::optional<std::string>> Host(const char* name) const;

  // kInvalidArgument "RANK=abc: <why>".
  Status Wrong(const char* name, std::string_view why) const;
  // kInvalidArgument "RANK is set but WORLD_SIZE is not".
  static Status Missing(const char* name, const char* because);

 private:
  const GetEnv& getenv_;
};

}  // namespace paceline::job
