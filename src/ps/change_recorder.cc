#include "ps/change_recorder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::ps {

namespace {

constexpr std::size_t kMaxRecordings = 65536;

}  // namespace

void ChangeRecorder::Changed(std::uint32_t table, std::span<const std::int64_t> ids) {
  const MutexLock lock(mutex_);
  for (auto at = recordings_.lower_bound({table, 0});
       at != recordings_.end() && at->first.first == table; ++at) {
    Recording& recording = at->second;
    if (recording.overflowed) continue;
    recording.ids.insert(ids.begin(), ids.end());
    if (recording.ids.size() > max_ids_) recording = {.ids = {}, .overflowed = true};
  }
}

Result<std::vector<std::int64_t>> ChangeRecorder::Take(std::uint64_t trainer, std::uint32_t table) {
  std::unordered_set<std::int64_t> taken;
  {
    const MutexLock lock(mutex_);
    const auto found = recordings_.find({table, trainer});
    if (found == recordings_.end()) {
      if (recordings_.size() >= kMaxRecordings) {
        return Status::Error(Code::kUnavailable, "too many trainers ask for changed rows");
      }
      recordings_[{table, trainer}];
      return std::vector<std::int64_t>();
    }
    if (std::exchange(found->second.overflowed, false)) {
      return Status::Error(Code::kUnavailable,
                           fmt::format("more than {} rows changed since trainer {} asked before: "
                                       "it has to pull what it uses",
                                       max_ids_, trainer));
    }
    taken.swap(found->second.ids);
  }
  std::vector<std::int64_t> ids(taken.begin(), taken.end());
  std::ranges::sort(ids);
  return ids;
}

}  // namespace paceline::ps
