#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ps/row_format.h"
#include "ps/stripe_groups.h"
#include "ps/table.h"
#include "ps/touch_counter.h"

namespace paceline::ps {

// What tables have in common that spread ids over stripes by hash, each with its own lock: what is
// done to a row, and which ids get one. Thread-safe. Where rows lie is the derived class's.
class StripedTable : public Table {
 public:
  using Table::Pull, Table::PushKeeping;
  StripeGroups Group(std::span<const std::int64_t> ids) const final { return {ids, stripe_count_}; }
  Status Pull(const StripePart& ids, std::span<float> out) final;
  Status PushKeeping(const StripePart& ids, std::span<const float> gradients, float learning_rate,
                     std::span<float> before) final;
  Status Add(std::span<const std::int64_t> ids, std::span<const float> deltas) final;
  void SetTick(std::uint32_t tick) final { tick_.store(tick, std::memory_order_relaxed); }
  Result<std::uint64_t> EvictUntouchedSince(std::uint32_t tick, const RowVisitor& removed) final;
  void RestoreWaiting(const WaitingId& waiting) final;
  std::uint64_t Waiting() const final;

 protected:
  using Item = StripeGroups::Item;

  enum class Access {
    kRead,
    kChange,  // counts ids without a row, and makes those that are admitted
  };
  // Null for an id without a row. Runs under the lock of the row's stripe.
  using UseRow = std::function<void(const Item& item, float* row)>;

  // `options` must be valid.
  explicit StripedTable(const TableOptions& options);

  // Calls `use` for each id; each stripe is locked at most once. kChange sets the tick.
  virtual Status ForRows(const StripePart& ids, Access access, const UseRow& use) = 0;

  // Of rows alone.
  virtual Result<std::uint64_t> EvictRows(std::uint32_t tick, const RowVisitor& removed) = 0;

  // Whether this id without a row gets one now.
  bool Admitted(const Item& item, Access access);
  std::vector<WaitingId> CopyWaiting() const;
  std::size_t CounterBytes() const;

  const RowFormat& format() const { return format_; }
  std::uint32_t tick() const { return tick_.load(std::memory_order_relaxed); }

 private:
  // What a pull answers for this id, to its place in `out`.
  void CopyValues(const Item& item, float* row, std::span<float> out) const;

  const RowFormat format_;
  const std::size_t stripe_count_;
  const AdmissionOptions admission_;
  // Of the stripe with the same number. A lock of their own, since stripes are the derived class's.
  struct Counter {
    mutable Mutex mutex;
    TouchCounter ids PACELINE_GUARDED_BY(mutex);
  };
  std::vector<std::unique_ptr<Counter>> counters_;  // none unless touches are counted
  std::atomic<std::uint32_t> tick_{0};
};

}  // namespace paceline::ps
