#include "job/lease_history.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::job {

namespace {

void Violate(ViolationList& violations, std::uint64_t line, std::string text) {
  violations.Add({.kind = "lease",
                  .text = std::move(text),
                  .file = "members.jsonl",
                  .line = line,
                  .step = {},
                  .generation = {}});
}

}  // namespace

std::uint64_t LeaseHistory::samples_done() const {
  std::uint64_t done = 0;
  for (const auto& [number, lease] : leases) done += lease.done;
  return done;
}

std::uint64_t LeaseHistory::end() const {
  if (leases.empty()) return 0;
  const algo::PositionRange& last = leases.rbegin()->second.range;
  return last.begin + last.count;
}

std::uint64_t LeaseHistory::first_open() const {
  for (const auto& [number, lease] : leases) {
    if (!lease.finished) return lease.range.begin + lease.done;
  }
  return end();
}

std::uint64_t LeaseHistory::finished() const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(leases, [](const auto& entry) { return entry.second.finished; }));
}

void LeaseHistoryBuilder::Add(const Record& record, const LeaseRecord& lease,
                              ViolationList& violations) {
  const bool known = history_.leases.contains(lease.lease);
  LeaseHistory::Entry& entry = history_.leases[lease.lease];
  const auto violate = [&](const std::string& text) { Violate(violations, record.line, text); };
  if (known && entry.range != lease.range) {
    violate(fmt::format("lease {} changed its samples", lease.lease));
  }
  if (lease.done < entry.done) {
    violate(fmt::format("lease {} was at {} samples and is at {} now", lease.lease, entry.done,
                        lease.done));
  }
  if (lease.done > lease.range.count) {
    violate(fmt::format("{} of {} samples of lease {} are done", lease.done, lease.range.count,
                        lease.lease));
  }
  if (record.type == "lease") {
    // Told again to the same worker: it asked twice, or the coordinator came back.
    if (!entry.holder.empty() && entry.holder != lease.member) {
      violate(fmt::format("lease {} went to {} while {} had it", lease.lease, lease.member,
                          entry.holder));
    }
    if (entry.finished) violate(fmt::format("lease {} was finished and lent again", lease.lease));
    if (known && entry.holder.empty()) ++history_.handed_on;
    entry.holder = lease.member;
  } else {
    if (entry.holder != lease.member) {
      violate(
          fmt::format("{} reports on lease {}, which it does not hold", lease.member, lease.lease));
    }
    entry.holder.clear();
    entry.finished = record.type == "lease-done";
  }
  entry.range = lease.range;
  entry.done = std::max(entry.done, std::min(lease.done, lease.range.count));
  entry.line = record.line;
}

LeaseHistory LeaseHistoryBuilder::Finish(ViolationList& violations) {
  std::uint64_t next_number = 0, next_position = 0;
  for (const auto& [number, lease] : history_.leases) {
    if (number != next_number || lease.range.begin != next_position) {
      Violate(violations, lease.line,
              fmt::format("lease {} begins at sample {}; lease {} at {} was to follow", number,
                          lease.range.begin, next_number, next_position));
    }
    next_number = number + 1;
    next_position = lease.range.begin + lease.range.count;
  }
  return std::move(history_);
}

}  // namespace paceline::job
