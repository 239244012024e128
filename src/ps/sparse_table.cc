#include "ps/sparse_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace paceline::ps {
namespace {

// So many rows are fetched from memory at the same time; more would not fit into a small cache.
constexpr std::size_t kFetched = 32;

void Prefetch(const RowStore& store, std::span<const StripeGroups::Item> items) {
  for (const StripeGroups::Item& item : items) {
    if (item.row == RowStore::kNoRow) {
      store.PrefetchIndex(item.hash);
    } else {
      store.PrefetchNumber(item.row);
    }
  }
  for (const StripeGroups::Item& item : items) {
    if (item.row == RowStore::kNoRow) store.PrefetchRow(item.hash);
  }
}

Status FullStripe() {
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("a stripe of the table has its {} rows; it needs more stripes",
                                   RowStore::kMaxRows));
}

}  // namespace

SparseTable::SparseTable(const TableOptions& options) : StripedTable(options) {
  for (std::size_t i = 0; i < options.stripes; ++i) {
    stripes_.push_back(
        std::make_unique<Stripe>(Rows{.store = RowStore(format().floats()), .old = {}}));
  }
}

Status SparseTable::ForRows(const StripePart& ids, Access access, const UseRow& use) {
  for (std::size_t i = ids.begin; i < ids.end; ++i) {
    if (ids.groups.Of(i).empty()) continue;
    Stripe& stripe = *stripes_[i];
    MutexLock lock(stripe.mutex);
    ids.groups.ForgetErased(i, stripe.rows.store.erasures());
    PACELINE_TRY(ForRowsOfStripe(stripe.rows, ids.groups.Of(i), access, use));
  }
  return {};
}

Status SparseTable::ForRowsOfStripe(Rows& rows, std::span<Item> items, Access access,
                                    const UseRow& use) {
  RowStore& store = rows.store;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i % kFetched == 0) Prefetch(store, items.subspan(i, std::min(kFetched, items.size() - i)));
    Item& item = items[i];
    RowStore::RowNumber number =
        item.row == RowStore::kNoRow ? store.Find(item.hash, item.id) : item.row;
    if (number == RowStore::kNoRow) {
      if (!Admitted(item, access)) {
        use(item, nullptr);
        continue;
      }
      number = store.Insert(item.hash, item.id);
      if (number == RowStore::kNoRow) return FullStripe();
      if (rows.old) rows.old->Inserted(number);
      format().Initialise(item.id, store.Floats(number));
    }
    item.row = number;
    if (access == Access::kChange) {
      if (rows.old) rows.old->BeforeChange(store, number);
      format().SetTick(tick(), store.Floats(number));
    }
    use(item, store.Floats(number));
  }
  return {};
}

bool SparseTable::EraseRow(Rows& rows, std::uint64_t hash, std::int64_t id) {
  if (rows.old) {
    const RowStore::RowNumber number = rows.store.Find(hash, id);
    if (number != RowStore::kNoRow) rows.old->BeforeChange(rows.store, number);
  }
  return rows.store.Erase(hash, id);
}

Result<std::uint64_t> SparseTable::Erase(std::span<const std::int64_t> ids) {
  StripeGroups groups = Group(ids);
  std::uint64_t erased = 0;
  for (std::size_t i = 0; i < stripes_.size(); ++i) {
    if (groups.Of(i).empty()) continue;
    Stripe& stripe = *stripes_[i];
    MutexLock lock(stripe.mutex);
    for (const StripeGroups::Item& item : groups.Of(i)) {
      if (EraseRow(stripe.rows, item.hash, item.id)) ++erased;
    }
  }
  return erased;
}

Result<std::uint64_t> SparseTable::EvictRows(std::uint32_t tick, const RowVisitor& removed) {
  std::uint64_t evicted = 0;
  for (const auto& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    RowStore& store = stripe->rows.store;
    for (const RowStore::RowNumber row : store.Rows()) {
      if (format().Tick(store.Floats(row)) >= tick) continue;
      const std::int64_t id = store.IdOf(row);
      PACELINE_TRY(removed(format().View(id, store.Floats(row))));
      EraseRow(stripe->rows, HashId(id), id);
      ++evicted;
    }
  }
  return evicted;
}

Status SparseTable::Visit(const Copied& copied, const RowVisitor& visit) const {
  for (std::size_t i = 0; i < copied.ids.size(); ++i) {
    PACELINE_TRY(visit(format().View(copied.ids[i], &copied.floats[i * format().floats()])));
  }
  return {};
}

void SparseTable::Copied::Reserve(std::size_t rows, std::size_t floats_per_row) {
  ids.clear();
  floats.clear();
  ids.reserve(rows);
  floats.reserve(rows * floats_per_row);
}

void SparseTable::Copied::Add(std::int64_t id, std::span<const float> row) {
  ids.push_back(id);
  floats.insert(floats.end(), row.begin(), row.end());
}

Status SparseTable::ForEachRow(const RowVisitor& visit) {
  const std::size_t floats = format().floats();
  Copied copied;
  for (const auto& stripe : stripes_) {
    {
      MutexLock lock(stripe->mutex);
      const RowStore& store = stripe->rows.store;
      copied.Reserve(store.size(), floats);
      for (const RowStore::RowNumber row : store.Rows()) {
        copied.Add(store.IdOf(row), {store.Floats(row), floats});
      }
    }
    PACELINE_TRY(Visit(copied, visit));
  }
  return {};
}

class SparseTable::Frozen final : public FrozenRows {
 public:
  explicit Frozen(SparseTable& table) : table_(table), waiting_(table.CopyWaiting()) {
    for (const auto& stripe : table_.stripes_) {
      MutexLock lock(stripe->mutex);
      PACELINE_CHECK(!stripe->rows.old, "a table is frozen once at a time");
      stripe->rows.old.emplace(stripe->rows.store, table_.format().floats());
    }
  }
  ~Frozen() override {
    for (const auto& stripe : table_.stripes_) {
      MutexLock lock(stripe->mutex);
      stripe->rows.old.reset();
    }
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

  Status ForEachRow(const RowVisitor& visit) override {
    const std::size_t floats = table_.format().floats();
    Copied copied;
    for (const auto& stripe : table_.stripes_) {
      {
        MutexLock lock(stripe->mutex);
        Rows& rows = stripe->rows;
        PACELINE_CHECK(rows.old.has_value(), "rows of then are visited once");
        copied.Reserve(rows.store.size(), floats);
        rows.old->ForEach(rows.store, [&](std::int64_t id, const float* row) {
          copied.Add(id, {row, floats});
        });
        rows.old.reset();
      }
      PACELINE_TRY(table_.Visit(copied, visit));
    }
    return {};
  }
  std::span<const WaitingId> waiting() const override { return waiting_; }

 private:
  SparseTable& table_;
  const std::vector<WaitingId> waiting_;
};

Result<std::unique_ptr<FrozenRows>> SparseTable::Freeze() {
  return std::unique_ptr<FrozenRows>(std::make_unique<Frozen>(*this));
}

Status SparseTable::Restore(const TableRow& row) {
  PACELINE_TRY(format().CheckRow(row));
  const std::uint64_t hash = HashId(row.id);
  Stripe& stripe = *stripes_[StripeOf(hash, stripes_.size())];
  MutexLock lock(stripe.mutex);
  RowStore& store = stripe.rows.store;
  RowStore::RowNumber number = store.Find(hash, row.id);
  const bool is_new = number == RowStore::kNoRow;
  if (is_new) number = store.Insert(hash, row.id);
  if (number == RowStore::kNoRow) return FullStripe();
  if (stripe.rows.old && is_new) stripe.rows.old->Inserted(number);
  if (stripe.rows.old) stripe.rows.old->BeforeChange(store, number);
  format().Assign(row, store.Floats(number));
  return {};
}

std::uint64_t SparseTable::Size() const {
  std::uint64_t rows = 0;
  for (const auto& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    rows += stripe->rows.store.size();
  }
  return rows;
}

std::size_t SparseTable::MemoryBytes() const {
  std::size_t bytes = stripes_.size() * sizeof(Stripe) + CounterBytes();
  for (const auto& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    bytes += stripe->rows.store.MemoryBytes();
    if (stripe->rows.old) bytes += stripe->rows.old->MemoryBytes();
  }
  return bytes;
}

Result<std::unique_ptr<Table>> OpenSparseTable(const TableOptions& options) {
  PACELINE_TRY(CheckTableOptions(options));
  return std::unique_ptr<Table>(std::make_unique<SparseTable>(options));
}

}  // namespace paceline::ps
