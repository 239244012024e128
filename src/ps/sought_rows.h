#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "ps/stripe_groups.h"

namespace paceline::ps {

// Whether no id comes twice.
bool EachOnce(std::span<const std::int64_t> ids);

// Ids of one table that were pulled, and where their rows are.
struct SoughtRows {
  std::uint32_t table = 0;
  std::vector<std::int64_t> ids;
  StripeGroups groups;        // of `ids`
  bool is_each_once = false;  // false says nothing
};

// What was sought for the last pulls: a trainer pushes the ids that it has pulled, and they need
// not be looked for again. Bounded: the oldest go first. Thread-safe.
class RecentlySought {
 public:
  explicit RecentlySought(std::size_t most) : most_(most) {}

  void Keep(SoughtRows sought) PACELINE_EXCLUDES(mutex_);
  // Whether it is known that these ids come once each.
  bool KnowsEachOnce(std::uint32_t table, std::span<const std::int64_t> ids) const
      PACELINE_EXCLUDES(mutex_);
  // What was kept of exactly these ids, in this order; null: nothing. The caller's from then on.
  std::unique_ptr<SoughtRows> Take(std::uint32_t table, std::span<const std::int64_t> ids)
      PACELINE_EXCLUDES(mutex_);

 private:
  using Kept = std::deque<std::unique_ptr<SoughtRows>>;
  Kept::const_iterator Find(std::uint32_t table, std::span<const std::int64_t> ids) const
      PACELINE_REQUIRES(mutex_);

  const std::size_t most_;
  mutable Mutex mutex_;
  Kept kept_ PACELINE_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace paceline::ps
