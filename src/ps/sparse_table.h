#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ps/old_rows.h"
#include "ps/row_store.h"
#include "ps/striped_table.h"
#include "ps/table.h"

namespace paceline::ps {

// A table in memory. Ids are spread over stripes by hash, each with its own lock, index and rows; a
// call locks one stripe at a time, and each at most once. ForEachRow() copies one stripe at a time,
// so the rows of a stripe are of the same moment and it takes a 64th of the table as scratch. While
// it is frozen, a stripe keeps the rows that change as they were until they have been visited.
class SparseTable final : public StripedTable {
 public:
  // `options` must be valid: OpenSparseTable() checks them.
  explicit SparseTable(const TableOptions& options);

  Result<std::uint64_t> Erase(std::span<const std::int64_t> ids) override;
  Status ForEachRow(const RowVisitor& visit) override;
  Result<std::unique_ptr<FrozenRows>> Freeze() override;
  Status Restore(const TableRow& row) override;
  std::uint64_t Size() const override;
  std::size_t MemoryBytes() const override;

 private:
  struct Rows {
    RowStore store;
    std::optional<OldRows> old;  // while it is frozen
  };
  // On its own cache lines: locks of neighbours do not slow each other down.
  struct alignas(64) Stripe {
    explicit Stripe(Rows with) : rows(std::move(with)) {}
    mutable Mutex mutex;
    Rows rows PACELINE_GUARDED_BY(mutex);
  };

  class Frozen;
  // Rows that were copied out of a stripe.
  struct Copied {
    void Reserve(std::size_t rows, std::size_t floats_per_row);
    void Add(std::int64_t id, std::span<const float> row);

    std::vector<std::int64_t> ids;
    std::vector<float> floats;
  };

  static bool EraseRow(Rows& rows, std::uint64_t hash, std::int64_t id);
  Status Visit(const Copied& copied, const RowVisitor& visit) const;
  Status ForRows(const StripePart& ids, Access access, const UseRow& use) override;
  Status ForRowsOfStripe(Rows& rows, std::span<Item> items, Access access, const UseRow& use);
  Result<std::uint64_t> EvictRows(std::uint32_t tick, const RowVisitor& removed) override;

  std::vector<std::unique_ptr<Stripe>> stripes_;
};

Result<std::unique_ptr<Table>> OpenSparseTable(const TableOptions& options);

}  // namespace paceline::ps
