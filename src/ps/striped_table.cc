#include "ps/striped_table.h"

#include <algorithm>

namespace paceline::ps {

StripedTable::StripedTable(const TableOptions& options)
    : format_(options), stripe_count_(options.stripes), admission_(options.admission) {
  if (admission_.rule != AdmissionRule::kAfterTouches) return;
  for (std::size_t i = 0; i < options.stripes; ++i) {
    counters_.push_back(std::make_unique<Counter>());
  }
}

Status StripedTable::Pull(const StripePart& ids, std::span<float> out) {
  PACELINE_TRY(format_.CheckLength(ids.groups.size(), out.size()));
  return ForRows(ids, Access::kRead,
                 [&](const Item& item, float* row) { CopyValues(item, row, out); });
}

void StripedTable::CopyValues(const Item& item, float* row, std::span<float> out) const {
  const auto target = out.subspan(item.position * format_.dim(), format_.dim());
  if (row == nullptr) {
    format_.InitialValues(item.id, target);
  } else {
    std::ranges::copy(format_.Values(row), target.begin());
  }
}

Status StripedTable::PushKeeping(const StripePart& ids, std::span<const float> gradients,
                                 float learning_rate, std::span<float> before) {
  PACELINE_TRY(format_.CheckLength(ids.groups.size(), gradients.size()));
  if (!before.empty()) PACELINE_TRY(format_.CheckLength(ids.groups.size(), before.size()));
  return ForRows(ids, Access::kChange, [&](const Item& item, float* row) {
    if (!before.empty()) CopyValues(item, row, before);
    if (row == nullptr) return;
    format_.Apply(learning_rate, gradients.subspan(item.position * format_.dim(), format_.dim()),
                  row);
  });
}

Status StripedTable::Add(std::span<const std::int64_t> ids, std::span<const float> deltas) {
  PACELINE_TRY(format_.CheckLength(ids.size(), deltas.size()));
  StripeGroups groups = Group(ids);
  return ForRows(groups, Access::kChange, [&](const Item& item, float* row) {
    if (row == nullptr) return;
    format_.Add(deltas.subspan(item.position * format_.dim(), format_.dim()), row);
  });
}

Result<std::uint64_t> StripedTable::EvictUntouchedSince(std::uint32_t tick,
                                                        const RowVisitor& removed) {
  PACELINE_TRY(format_.CheckRemembersTouch());
  for (const auto& counter : counters_) {
    const MutexLock lock(counter->mutex);
    counter->ids.ForgetUntouchedSince(tick);
  }
  return EvictRows(tick, removed);
}

bool StripedTable::Admitted(const Item& item, Access access) {
  if (access == Access::kRead) return false;
  switch (admission_.rule) {
    case AdmissionRule::kAll: return true;
    case AdmissionRule::kAfterTouches: {
      Counter& counter = *counters_[StripeOf(item.hash, counters_.size())];
      const MutexLock lock(counter.mutex);
      return counter.ids.Touch(item.id, tick(), admission_.touches);
    }
    case AdmissionRule::kByChance: return format_.AdmittedByChance(item.id, admission_.probability);
  }
  return false;
}

void StripedTable::RestoreWaiting(const WaitingId& waiting) {
  if (counters_.empty()) return;
  Counter& counter = *counters_[StripeOf(HashId(waiting.id), counters_.size())];
  const MutexLock lock(counter.mutex);
  counter.ids.Restore(waiting);
}

std::uint64_t StripedTable::Waiting() const {
  std::uint64_t ids = 0;
  for (const auto& counter : counters_) {
    const MutexLock lock(counter->mutex);
    ids += counter->ids.size();
  }
  return ids;
}

std::vector<WaitingId> StripedTable::CopyWaiting() const {
  std::vector<WaitingId> all;
  for (const auto& counter : counters_) {
    const MutexLock lock(counter->mutex);
    counter->ids.AppendTo(all);
  }
  return all;
}

std::size_t StripedTable::CounterBytes() const {
  std::size_t bytes = 0;
  for (const auto& counter : counters_) {
    const MutexLock lock(counter->mutex);
    bytes += counter->ids.MemoryBytes();
  }
  return bytes;
}

}  // namespace paceline::ps
