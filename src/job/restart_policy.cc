#include "job/restart_policy.h"

#include <signal.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "job/cgroup.h"
#include "job/failure_report.h"

namespace paceline::job {

using std::chrono::milliseconds;

bool IsHopeless(const ExitState& state) {
  constexpr int kCodes[] = {2, 10, 11, 12, 13, 15, 16, 18, 126, 127};  // the last two: of a shell
  return state.signal == 0 && std::ranges::find(kCodes, state.code) != std::end(kCodes);
}

Code ReasonOf(const ExitState& state) {
  for (int code = 1; code <= static_cast<int>(Code::kInternal); ++code) {
    if (ExitCode(static_cast<Code>(code)) == state.code) return static_cast<Code>(code);
  }
  return Code::kUnavailable;
}

OutOfMemoryWatch::OutOfMemoryWatch(std::string cgroup_root)
    : cgroup_root_(std::move(cgroup_root)), kills_(OomKills(cgroup_root_)) {}

bool OutOfMemoryWatch::Explains(const ExitState& state) {
  const auto kills = OomKills(cgroup_root_);
  if (state.signal != SIGKILL || !kills || !kills_ || *kills <= *kills_) return false;
  ++*kills_;
  return true;
}

milliseconds RestartPause::After(const ExitState& state, bool out_of_memory,
                                 std::chrono::nanoseconds lived) {
  constexpr milliseconds kShortLife(5'000), kLongest(30'000);
  const bool killed = state.signal == SIGKILL && !out_of_memory;
  if (killed || lived >= kShortLife) {
    pause_ = kFirst;
    return milliseconds(0);
  }
  pause_ = std::min(2 * pause_, kLongest);
  return pause_;
}

std::string DescribeEnd(const ExitState& state, bool out_of_memory) {
  if (state.signal == 0) return fmt::format("ended with exit code {}", state.code);
  return fmt::format("was ended by {}{}", SignalName(state.signal),
                     out_of_memory ? ": out of memory" : "");
}

}  // namespace paceline::job
