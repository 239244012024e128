#pragma once

#include <functional>

#include "net/loop.h"

namespace paceline::net::internal {

// Runs a task on the loop and waits until it is done; at once when called on the loop.
void RunOnLoop(Loop& loop, const std::function<void()>& task);

}  // namespace paceline::net::internal
