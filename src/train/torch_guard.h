#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/status.h"

namespace paceline::train {

// The first line of a torch exception, without its C++ stack: what a user can read.
Status FromTorchException(const std::exception& exception);

// Runs `body` (returning Status or Result) and turns whatever torch throws into a Status. The only
// place where exceptions are caught.
template <typename Body>
auto TorchGuard(Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& exception) {
    return FromTorchException(exception);
  }
}

}  // namespace paceline::train
