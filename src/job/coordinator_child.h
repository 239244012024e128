#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "job/running_child.h"

namespace paceline::job {

// The coordinator of an elastic run as a child of the launcher, which starts it again when it dies:
// it goes on with the state that it has saved. Thread-compatible.
class CoordinatorChild {
 public:
  struct Options {
    std::string run;  // directory
    ChildStreams streams;
    const Clock* clock = &SystemClock();
    std::function<ChildSpec(bool restarted)> spec;  // `restarted`: it was there before
  };
  explicit CoordinatorChild(Options options) : options_(std::move(options)) {}

  // Starts it, or starts it again, and returns when it listens. Else what it had to say.
  Status Start();
  bool running() const { return child_ && child_->running(); }
  // After Start().
  RunningChild& child() { return *child_; }
  const std::string& endpoint() const { return endpoint_; }

 private:
  const Options options_;
  std::optional<RunningChild> child_;
  bool restarted_ = false;
  std::string endpoint_;
};

}  // namespace paceline::job
