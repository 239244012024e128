#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

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
  Status Pull(std::span<const std::int64_t> ids, Touch touch, std::span<float> out) final;
  Status Push(std::span<const std::int64_t> ids, std::span<const float> gradients,
              float learning_rate) final;
  Status Add(std::span<const std::int64_t> ids, std::span<const float> deltas) final;
  Status Has(std::span<const std::int64_t> ids, std::span<std::uint8_t> out) final;
  void SetTick(std::uint32_t tick) final { tick_.store(tick, std::memory_order_relaxed); }

 protected:
  using Item = StripeGroups::Item;

  enum class Access {
    kPeek,    // touches nothing
    kRead,    // counts ids without a row, and makes those that are admitted
    kChange,  // makes rows that are admitted without counting
  };
  // Null for an id without a row. Runs under the lock of the row's stripe.
  using UseRow = std::function<void(const Item& item, float* row)>;

  // `options` must be valid.
  explicit StripedTable(const TableOptions& options);

  // Calls `use` for each id; each stripe is locked at most once. Sets the tick of rows but for
  // kPeek.
  virtual Status ForRows(std::span<const std::int64_t> ids, Access access, const UseRow& use) = 0;

  // Whether this id without a row gets one now. `counter` is its stripe's.
  bool Admitted(TouchCounter& counter, const Item& item, Access access) const;
  // For one stripe.
  TouchCounter NewCounter() const;

  const RowFormat& format() const { return format_; }
  std::uint32_t tick() const { return tick_.load(std::memory_order_relaxed); }

 private:
  const RowFormat format_;
  const AdmissionOptions admission_;
  const std::size_t stripes_;
  std::atomic<std::uint32_t> tick_{0};
};

}  // namespace paceline::ps
