#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/status.h"
#include "job/launch_environment.h"

namespace paceline::job {

// An environment that a test makes up.
using Variables = std::map<std::string, std::string>;

Result<std::optional<LaunchEnvironment>> Recognize(const Variables& variables);

// `more` replaces what is there.
Variables With(Variables variables, const Variables& more);

}  // namespace paceline::job
