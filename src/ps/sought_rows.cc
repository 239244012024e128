#include "ps/sought_rows.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace paceline::ps {

namespace {

// 32 bytes each: longer lists would take more memory than looking twice takes time.
constexpr std::size_t kMostIds = std::size_t{1} << 16;

}  // namespace

// Places of ids in an open hash table: one pass instead of sorting them.
bool EachOnce(std::span<const std::int64_t> ids) {
  const auto bits = static_cast<int>(std::bit_width(2 * ids.size()));
  std::vector<std::uint32_t> slots(std::size_t{1} << bits);  // places + 1; 0: free
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // Fibonacci hashing: the upper bits of a product with 2^64 / golden ratio.
    const std::uint64_t hash = static_cast<std::uint64_t>(ids[i]) * 0x9E3779B97F4A7C15U;
    for (std::size_t slot = hash >> (64 - bits);; slot = (slot + 1) & (slots.size() - 1)) {
      if (slots[slot] == 0) {
        slots[slot] = static_cast<std::uint32_t>(i + 1);
        break;
      }
      if (ids[slots[slot] - 1] == ids[i]) return false;
    }
  }
  return true;
}

void RecentlySought::Keep(SoughtRows sought) {
  if (sought.ids.size() > kMostIds) return;
  auto kept = std::make_unique<SoughtRows>(std::move(sought));
  const MutexLock lock(mutex_);
  kept_.push_back(std::move(kept));
  if (kept_.size() > most_) kept_.pop_front();
}

RecentlySought::Kept::const_iterator RecentlySought::Find(std::uint32_t table,
                                                          std::span<const std::int64_t> ids) const {
  return std::ranges::find_if(kept_, [&](const std::unique_ptr<SoughtRows>& sought) {
    return sought->table == table && std::ranges::equal(sought->ids, ids);
  });
}

bool RecentlySought::KnowsEachOnce(std::uint32_t table, std::span<const std::int64_t> ids) const {
  const MutexLock lock(mutex_);
  const auto found = Find(table, ids);
  return found != kept_.end() && (*found)->is_each_once;
}

std::unique_ptr<SoughtRows> RecentlySought::Take(std::uint32_t table,
                                                 std::span<const std::int64_t> ids) {
  const MutexLock lock(mutex_);
  const auto found = Find(table, ids);
  if (found == kept_.end()) return nullptr;
  const auto place = kept_.begin() + (found - kept_.cbegin());
  auto taken = std::move(*place);
  kept_.erase(place);
  return taken;
}

}  // namespace paceline::ps
