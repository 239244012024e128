#include "job/coordinator_child.h"

#include <poll.h>

#include <chrono>
#include <utility>

#include "job/coordinator_run.h"
#include "job/restart_policy.h"

namespace paceline::job {

namespace {

constexpr std::chrono::milliseconds kStartTime(20'000);

}  // namespace

Status CoordinatorChild::Start() {
  PACELINE_ASSIGN(RunningChild child,
                  RunningChild::Start(options_.spec(restarted_), options_.streams));
  child_.emplace(std::move(child));
  restarted_ = true;
  const Instant deadline = options_.clock->Now() + kStartTime;
  for (;;) {
    const auto address = ReadCoordinatorAddress(options_.run);
    if (address.ok() && address->pid == child_->pid()) {
      endpoint_ = address->endpoint.ToString();
      return {};
    }
    if (child_->Ended() || options_.clock->Now() > deadline) break;
    pollfd wait{};
    ::poll(&wait, 0, 5);
    child_->Forward();
  }
  child_->Kill();
  const auto state = child_->Reap();  // with what it has to say
  return Status::Error(state.ok() ? ReasonOf(*state) : Code::kUnavailable,
                       "the coordinator did not start: " + child_->error_line());
}

}  // namespace paceline::job
