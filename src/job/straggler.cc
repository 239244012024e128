#include "job/straggler.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace paceline::job {

void StragglerReport::Add(std::span<const double> busy_seconds) {
  if (busy_seconds.size() < 2) return;
  if (workers_.size() != busy_seconds.size()) {  // the group has changed: start anew
    workers_.assign(busy_seconds.size(), {});
    steps_ = 0;
  }
  ++steps_;
  const auto slowest = std::max_element(busy_seconds.begin(), busy_seconds.end());
  Worker& worker = workers_[static_cast<std::size_t>(slowest - busy_seconds.begin())];
  const double sum = std::accumulate(busy_seconds.begin(), busy_seconds.end(), 0.0);
  const auto others = static_cast<double>(busy_seconds.size() - 1);
  ++worker.last;
  worker.waited_seconds += *slowest - (sum - *slowest) / others;
}

std::size_t StragglerReport::Worst() const {
  const auto worst = std::ranges::max_element(workers_, {}, &Worker::waited_seconds);
  return static_cast<std::size_t>(worst - workers_.begin());
}

double StragglerReport::WorstWait() const {
  return steps_ == 0 ? 0 : workers_[Worst()].waited_seconds;
}

std::string StragglerReport::Line() const {
  if (steps_ == 0) return "";
  const Worker& worst = workers_[Worst()];
  const auto steps = static_cast<double>(steps_);
  return fmt::format(
      "rank {} was last in {:.0f} % of {} steps; the others waited {:.1f} ms a step for it on "
      "average",
      Worst(), 100 * static_cast<double>(worst.last) / steps, steps_,
      1e3 * worst.waited_seconds / steps);
}

}  // namespace paceline::job
