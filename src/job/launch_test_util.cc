#include "job/launch_test_util.h"

namespace paceline::job {

Result<std::optional<LaunchEnvironment>> Recognize(const Variables& variables) {
  return RecognizeLaunch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

}  // namespace paceline::job
