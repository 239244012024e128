#include "job/blame.h"

#include <algorithm>

#include <fmt/format.h>

namespace paceline::job {

namespace {

// Below these nobody needs to act.
constexpr double kNotableWait = 0.1, kNotableLink = 0.5;

}  // namespace

BusyLink LinkWatch::Sample(std::span<const collective::Engine::Link> links, double seconds) {
  BusyLink busiest;
  std::map<Rank, collective::Engine::Link> now;
  for (const auto& link : links) {
    now.emplace(link.to, link);
    const auto before = before_.find(link.to);
    if (before == before_.end() || link.bytes <= before->second.bytes || seconds <= 0) continue;
    const double busy = link.busy_seconds - before->second.busy_seconds;
    if (busy <= busiest.share * seconds) continue;
    busiest = {link.to, std::min(1.0, busy / seconds),
               static_cast<double>(link.bytes - before->second.bytes) / busy};
  }
  before_ = std::move(now);
  return busiest;
}

void BlameReport::Restart(Instant now) {
  since_ = now;
  stragglers_ = {};
  links_.clear();
  step_seconds_ = idle_seconds_ = 0;
}

void BlameReport::Add(std::span<const double> busy_seconds, std::span<const BusyLink> links,
                      double seconds) {
  stragglers_.Add(busy_seconds);
  links_.assign(links.begin(), links.end());  // each is an account of some time already
  step_seconds_ += seconds;
  if (!busy_seconds.empty()) {
    idle_seconds_ += std::max(0.0, seconds - *std::ranges::max_element(busy_seconds));
  }
}

std::optional<BlameReport::Blame> BlameReport::Take(Instant now) {
  const std::string line = stragglers_.Line();
  if (line.empty()) return std::nullopt;
  const double seconds = ToSeconds(now - since_);
  Blame blame{
      .text = fmt::format("in {:.0f} s {}", seconds, line),
      .notable = step_seconds_ > 0 && stragglers_.WorstWait() >= kNotableWait * step_seconds_};
  const auto slow = std::ranges::max_element(links_, {}, &BusyLink::share);
  if (slow != links_.end() && slow->share > 0) {
    blame.text += fmt::format(
        "; the link from rank {} to rank {} was busy {:.0f} % of the time, {:.1f} MB/s",
        slow - links_.begin(), slow->to.value(), 100 * slow->share, slow->bytes_per_second / 1e6);
    // A link that is busy while all compute costs nothing.
    const bool costs = idle_seconds_ >= kNotableWait * step_seconds_;
    blame.notable = blame.notable || (costs && slow->share >= kNotableLink);
  }
  Restart(now);
  return blame;
}

}  // namespace paceline::job
