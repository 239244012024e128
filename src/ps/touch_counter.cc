#include "ps/touch_counter.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::ps {

TouchCounter::TouchCounter(std::size_t ids) : sets_((ids + 7) / 8) {}

bool TouchCounter::Touch(std::uint64_t hash, std::uint32_t enough) {
  PACELINE_CHECK(enough >= 1 && enough <= kCountMask, "a count has 8 bits");
  if (enough == 1) return true;
  if (sets_.empty()) return false;
  const std::uint64_t name = hash & ~kCountMask;
  Set& set = sets_[(static_cast<std::uint32_t>(hash >> 8) * std::uint64_t{sets_.size()}) >> 32];
  for (Entry& entry : set.entries) {
    if (entry == 0 || (entry & ~kCountMask) != name) continue;
    if ((entry & kCountMask) + 1 < enough) {
      ++entry;
      return false;
    }
    entry = 0;
    return true;
  }
  Replace(set, name | 1);
  return false;
}

void TouchCounter::Replace(Set& set, Entry entry) {
  const auto count = [](Entry of) { return of & kCountMask; };
  const auto least = std::ranges::min_element(set.entries, {}, count);
  // Counts fade where room is short; otherwise ids of long ago would keep it for ever.
  if (count(*least) > 1) {
    for (Entry& other : set.entries) --other;
  }
  *least = entry;
}

}  // namespace paceline::ps
