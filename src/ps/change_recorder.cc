#include "ps/change_recorder.h"

#include <algorithm>
#include <utility>

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
    if (recording.ids.size() > max_ids_) {
      recording.ids = {};
      recording.overflowed = true;
    }
  }
}

ChangeRecorder::Taken ChangeRecorder::Take(std::uint64_t trainer, std::uint32_t table,
                                           std::uint64_t call) {
  std::unordered_set<std::int64_t> taken;
  {
    const MutexLock lock(mutex_);
    auto found = recordings_.find({table, trainer});
    if (found == recordings_.end() && recordings_.size() >= kMaxRecordings) {
      return {.restarted = true, .ids = {}};
    }
    const bool is_new = found == recordings_.end();
    if (is_new) found = recordings_.emplace(std::pair(table, trainer), Recording{}).first;
    Recording& recording = found->second;
    const bool expected = !is_new && recording.next_call == call && !recording.overflowed;
    taken = std::exchange(recording, {.ids = {}, .overflowed = false, .next_call = call + 1}).ids;
    if (!expected) return {.restarted = true, .ids = {}};
  }
  Taken result{.restarted = false, .ids = {taken.begin(), taken.end()}};
  std::ranges::sort(result.ids);
  return result;
}

}  // namespace paceline::ps
