#include "ps/sparse_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::ps {
namespace {

// So many rows are fetched from memory at the same time; more would not fit into a small cache.
constexpr std::size_t kFetched = 32;

void Prefetch(const RowStore& store, std::span<const StripeGroups::Item> items) {
  for (const StripeGroups::Item& item : items) store.PrefetchIndex(item.hash);
  for (const StripeGroups::Item& item : items) store.PrefetchRow(item.hash);
}

Status FullStripe() {
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("a stripe of the table has its {} rows; it needs more stripes",
                                   RowStore::kMaxRows));
}

}  // namespace

SparseTable::SparseTable(const TableOptions& options) : StripedTable(options) {
  for (std::size_t i = 0; i < options.stripes; ++i) {
    stripes_.push_back(std::make_unique<Stripe>(
        Rows{.store = RowStore(format().floats()), .counter = NewCounter()}));
  }
}

Status SparseTable::ForRows(std::span<const std::int64_t> ids, Access access, const UseRow& use) {
  const StripeGroups groups(ids, stripes_.size());
  for (std::size_t i = 0; i < stripes_.size(); ++i) {
    if (groups.Of(i).empty()) continue;
    Stripe& stripe = *stripes_[i];
    MutexLock lock(stripe.mutex);
    PACELINE_TRY(ForRowsOfStripe(stripe.rows, groups.Of(i), access, use));
  }
  return {};
}

Status SparseTable::ForRowsOfStripe(Rows& rows, std::span<const Item> items, Access access,
                                    const UseRow& use) const {
  RowStore& store = rows.store;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i % kFetched == 0) Prefetch(store, items.subspan(i, std::min(kFetched, items.size() - i)));
    const Item& item = items[i];
    RowStore::RowNumber number = store.Find(item.hash, item.id);
    if (number == RowStore::kNoRow) {
      if (!Admitted(rows.counter, item, access)) {
        use(item, nullptr);
        continue;
      }
      number = store.Insert(item.hash, item.id);
      if (number == RowStore::kNoRow) return FullStripe();
      format().Initialise(item.id, store.Floats(number));
    }
    if (access != Access::kPeek) format().SetTick(tick(), store.Floats(number));
    use(item, store.Floats(number));
  }
  return {};
}

Result<std::uint64_t> SparseTable::Erase(std::span<const std::int64_t> ids) {
  const StripeGroups groups(ids, stripes_.size());
  std::uint64_t erased = 0;
  for (std::size_t i = 0; i < stripes_.size(); ++i) {
    if (groups.Of(i).empty()) continue;
    Stripe& stripe = *stripes_[i];
    MutexLock lock(stripe.mutex);
    for (const StripeGroups::Item& item : groups.Of(i)) {
      if (stripe.rows.store.Erase(item.hash, item.id)) ++erased;
    }
  }
  return erased;
}

Result<std::uint64_t> SparseTable::EvictUntouchedSince(std::uint32_t tick) {
  PACELINE_TRY(format().CheckRemembersTouch());
  std::uint64_t evicted = 0;
  for (const auto& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    RowStore& store = stripe->rows.store;
    for (const RowStore::RowNumber row : store.Rows()) {
      if (format().Tick(store.Floats(row)) >= tick) continue;
      const std::int64_t id = store.IdOf(row);
      store.Erase(HashId(id), id);
      ++evicted;
    }
  }
  return evicted;
}

Status SparseTable::ForEachRow(const Visitor& visit) {
  std::vector<std::int64_t> ids;
  std::vector<float> floats;
  for (const auto& stripe : stripes_) {
    ids.clear();
    floats.clear();
    {
      MutexLock lock(stripe->mutex);
      const RowStore& store = stripe->rows.store;
      ids.reserve(store.size());
      floats.reserve(store.size() * format().floats());
      for (const RowStore::RowNumber row : store.Rows()) {
        ids.push_back(store.IdOf(row));
        floats.insert(floats.end(), store.Floats(row), store.Floats(row) + format().floats());
      }
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      PACELINE_TRY(visit(format().View(ids[i], floats.data() + i * format().floats())));
    }
  }
  return {};
}

Status SparseTable::Restore(const TableRow& row) {
  PACELINE_TRY(format().CheckRow(row));
  const std::uint64_t hash = HashId(row.id);
  Stripe& stripe = *stripes_[StripeOf(hash, stripes_.size())];
  MutexLock lock(stripe.mutex);
  RowStore& store = stripe.rows.store;
  RowStore::RowNumber number = store.Find(hash, row.id);
  if (number == RowStore::kNoRow) number = store.Insert(hash, row.id);
  if (number == RowStore::kNoRow) return FullStripe();
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
  std::size_t bytes = stripes_.size() * sizeof(Stripe);
  for (const auto& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    bytes += stripe->rows.store.MemoryBytes() + stripe->rows.counter.MemoryBytes();
  }
  return bytes;
}

Result<std::unique_ptr<Table>> OpenSparseTable(const TableOptions& options) {
  PACELINE_TRY(CheckTableOptions(options));
  return std::unique_ptr<Table>(std::make_unique<SparseTable>(options));
}

}  // namespace paceline::ps
