#include "ps/rocks_table.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include "base/mutex.h"
#include "ps/row_cache.h"
#include "ps/striped_table.h"

namespace paceline::ps {
namespace {

// The folder never leaves the machine, so keys and values are in its own byte order.
rocksdb::Slice KeyOf(const std::int64_t& id) {
  return {reinterpret_cast<const char*>(&id), sizeof(id)};
}

Status DiskError(const rocksdb::Status& status, const std::string& what) {
  return Status::Error(Code::kDisk, fmt::format("{}: {}", what, status.ToString()));
}

rocksdb::Options DatabaseOptions(const RocksTableOptions& rocks) {
  rocksdb::BlockBasedTableOptions blocks;
  blocks.block_cache = rocksdb::NewLRUCache(rocks.block_cache_bytes);
  // Most ids that memory does not know are new, and need no look at the disk.
  blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  blocks.cache_index_and_filter_blocks = true;  // else they grow with the table, outside the cache
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;  // trained floats do not get smaller
  options.write_buffer_size = std::size_t{16} << 20;
  options.info_log_level = rocksdb::ERROR_LEVEL;
  options.keep_log_file_num = 1;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  return options;
}

// A changed row in memory is newer than the one in the database. Each id's row is read, changed and
// written under the lock of its stripe.
class RocksTable final : public StripedTable {
 public:
  RocksTable(const TableOptions& options, const RocksTableOptions& rocks,
             std::unique_ptr<rocksdb::DB> db);

  Result<std::uint64_t> Erase(std::span<const std::int64_t> ids) override;
  Status ForEachRow(const RowVisitor& visit) override;
  Result<std::unique_ptr<FrozenRows>> Freeze() override;
  Status Restore(const TableRow& row) override;
  std::uint64_t Size() const override;
  std::size_t MemoryBytes() const override;

 private:
  struct Rows {
    RowCache cache;
    std::uint64_t stored = 0;  // in memory, on disk or both
  };
  struct alignas(64) Stripe {
    explicit Stripe(Rows with) : rows(std::move(with)) {}
    mutable Mutex mutex;
    Rows rows PACELINE_GUARDED_BY(mutex);
  };

  Status ForRows(const StripePart& ids, Access access, const UseRow& use) override;
  // From memory or disk; kNoRow when there is none.
  Result<RowStore::RowNumber> Load(Rows& rows, const Item& item);
  // Into memory with unspecified content, after making room.
  Result<RowStore::RowNumber> Place(Rows& rows, const Item& item);
  Result<RowStore::RowNumber> LoadOrMake(Rows& rows, const Item& item, Access access);
  Status Write(Rows& rows, RowStore::RowNumber row);
  Status WriteChanged();
  Result<bool> EraseRow(Rows& rows, const Item& item);
  Result<std::uint64_t> EvictRows(std::uint32_t tick, const RowVisitor& removed) override;
  Result<bool> EraseIfUntouched(std::int64_t id, std::uint32_t tick, const RowVisitor& removed);
  Status CheckStored(const rocksdb::Slice& value) const;
  Result<TableRow> RowAt(const rocksdb::Iterator& at, std::span<float> floats) const;
  class Frozen;

  const std::size_t row_bytes_;
  rocksdb::WriteOptions write_options_;
  std::vector<std::unique_ptr<Stripe>> stripes_;
  const std::unique_ptr<rocksdb::DB> db_;
};

RocksTable::RocksTable(const TableOptions& options, const RocksTableOptions& rocks,
                       std::unique_ptr<rocksdb::DB> db)
    : StripedTable(options), row_bytes_(format().floats() * sizeof(float)), db_(std::move(db)) {
  write_options_.disableWAL = true;  // the folder is scratch
  // Id, at most 7.5 bytes of index, and marks.
  const std::size_t bytes_in_memory = row_bytes_ + sizeof(std::int64_t) + 9;
  const std::size_t cached_rows = rocks.cache_bytes / options.stripes / bytes_in_memory;
  for (std::size_t i = 0; i < options.stripes; ++i) {
    stripes_.push_back(
        std::make_unique<Stripe>(Rows{.cache = RowCache(format().floats(), cached_rows)}));
  }
}

Status RocksTable::CheckStored(const rocksdb::Slice& value) const {
  if (value.size() == row_bytes_) return {};
  return Status::Error(Code::kDisk, fmt::format("{}: a row of {} bytes instead of {}",
                                                db_->GetName(), value.size(), row_bytes_));
}

Status RocksTable::Write(Rows& rows, RowStore::RowNumber row) {
  if (!rows.cache.changed(row)) return {};
  const RowStore& store = rows.cache.rows();
  const std::int64_t id = store.IdOf(row);
  const rocksdb::Slice value(reinterpret_cast<const char*>(store.Floats(row)), row_bytes_);
  const rocksdb::Status status = db_->Put(write_options_, KeyOf(id), value);
  if (!status.ok()) return DiskError(status, fmt::format("writing row {}", id));
  rows.cache.SetWritten(row);
  return {};
}

Result<RowStore::RowNumber> RocksTable::Place(Rows& rows, const Item& item) {
  if (const auto victim = rows.cache.Victim()) {
    PACELINE_TRY(Write(rows, *victim));
    const std::int64_t id = rows.cache.rows().IdOf(*victim);
    rows.cache.Erase(HashId(id), id);
  }
  return rows.cache.Insert(item.hash, item.id);
}

Result<RowStore::RowNumber> RocksTable::Load(Rows& rows, const Item& item) {
  if (const auto row = rows.cache.Find(item.hash, item.id); row != RowStore::kNoRow) return row;
  rocksdb::PinnableSlice value;
  const rocksdb::Status status =
      db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), KeyOf(item.id), &value);
  if (status.IsNotFound()) return RowStore::kNoRow;
  if (!status.ok()) return DiskError(status, fmt::format("reading row {}", item.id));
  PACELINE_TRY(CheckStored(value));
  PACELINE_ASSIGN(const RowStore::RowNumber row, Place(rows, item));
  std::memcpy(rows.cache.rows().Floats(row), value.data(), row_bytes_);
  return row;
}

Result<RowStore::RowNumber> RocksTable::LoadOrMake(Rows& rows, const Item& item, Access access) {
  PACELINE_ASSIGN(RowStore::RowNumber row, Load(rows, item));
  if (row != RowStore::kNoRow || !Admitted(item, access)) return row;
  PACELINE_ASSIGN(row, Place(rows, item));
  format().Initialise(item.id, rows.cache.rows().Floats(row));
  rows.cache.SetChanged(row);
  ++rows.stored;
  return row;
}

Status RocksTable::ForRows(const StripePart& ids, Access access, const UseRow& use) {
  for (std::size_t i = ids.begin; i < ids.end; ++i) {
    if (ids.groups.Of(i).empty()) continue;
    Stripe& stripe = *stripes_[i];
    MutexLock lock(stripe.mutex);
    for (const Item& item : ids.groups.Of(i)) {
      PACELINE_ASSIGN(const RowStore::RowNumber number, LoadOrMake(stripe.rows, item, access));
      if (number == RowStore::kNoRow) {
        use(item, nullptr);
        continue;
      }
      float* row = stripe.rows.cache.rows().Floats(number);
      if (access == Access::kChange) {
        format().SetTick(tick(), row);
        stripe.rows.cache.SetChanged(number);
      }
      use(item, row);
    }
  }
  return {};
}

Result<bool> RocksTable::EraseRow(Rows& rows, const Item& item) {
  PACELINE_ASSIGN(const RowStore::RowNumber row, Load(rows, item));
  if (row == RowStore::kNoRow) return false;
  const rocksdb::Status status = db_->Delete(write_options_, KeyOf(item.id));
  if (!status.ok()) return DiskError(status, fmt::format("erasing row {}", item.id));
  rows.cache.Erase(item.hash, item.id);
  --rows.stored;
  return true;
}

Result<std::uint64_t> RocksTable::Erase(std::span<const std::int64_t> ids) {
  StripeGroups groups = Group(ids);
  std::uint64_t erased = 0;
  for (std::size_t i = 0; i < stripes_.size(); ++i) {
    if (groups.Of(i).empty()) continue;
    Stripe& stripe = *stripes_[i];
    MutexLock lock(stripe.mutex);
    for (const Item& item : groups.Of(i)) {
      PACELINE_ASSIGN(const bool was_there, EraseRow(stripe.rows, item));
      if (was_there) ++erased;
    }
  }
  return erased;
}

Status RocksTable::WriteChanged() {
  for (const auto& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    for (const RowStore::RowNumber row : stripe->rows.cache.rows().Rows()) {
      PACELINE_TRY(Write(stripe->rows, row));
    }
  }
  return {};
}

Result<TableRow> RocksTable::RowAt(const rocksdb::Iterator& at, std::span<float> floats) const {
  std::int64_t id = 0;
  if (at.key().size() != sizeof(id)) {
    return Status::Error(Code::kDisk, db_->GetName() + ": a key that is not an id");
  }
  std::memcpy(&id, at.key().data(), sizeof(id));
  PACELINE_TRY(CheckStored(at.value()));
  std::memcpy(floats.data(), at.value().data(), row_bytes_);
  return format().View(id, floats.data());
}

// An iterator sees the database as it was when it was made.
class RocksTable::Frozen final : public FrozenRows {
 public:
  explicit Frozen(const RocksTable& table) : table_(table), waiting_(table.CopyWaiting()) {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    at_.reset(table_.db_->NewIterator(options));
  }

  Status ForEachRow(const RowVisitor& visit) override {
    std::vector<float> floats(table_.format().floats());  // aligned, unlike those in the database
    for (at_->SeekToFirst(); at_->Valid(); at_->Next()) {
      PACELINE_ASSIGN(const TableRow row, table_.RowAt(*at_, floats));
      PACELINE_TRY(visit(row));
    }
    if (!at_->status().ok()) return DiskError(at_->status(), "reading all rows");
    return {};
  }
  std::span<const WaitingId> waiting() const override { return waiting_; }

 private:
  const RocksTable& table_;
  const std::vector<WaitingId> waiting_;
  std::unique_ptr<rocksdb::Iterator> at_;
};

Result<std::unique_ptr<FrozenRows>> RocksTable::Freeze() {
  PACELINE_TRY(WriteChanged());
  return std::unique_ptr<FrozenRows>(std::make_unique<Frozen>(*this));
}

Status RocksTable::ForEachRow(const RowVisitor& visit) {
  PACELINE_ASSIGN(const auto rows, Freeze());
  return rows->ForEachRow(visit);
}

Result<bool> RocksTable::EraseIfUntouched(std::int64_t id, std::uint32_t tick,
                                          const RowVisitor& removed) {
  const Item item{.hash = HashId(id), .id = id, .position = 0};
  Stripe& stripe = *stripes_[StripeOf(item.hash, stripes_.size())];
  MutexLock lock(stripe.mutex);
  PACELINE_ASSIGN(const RowStore::RowNumber row, Load(stripe.rows, item));
  if (row == RowStore::kNoRow) return false;
  const float* const floats = stripe.rows.cache.rows().Floats(row);
  if (format().Tick(floats) >= tick) return false;
  PACELINE_TRY(removed(format().View(id, floats)));
  return EraseRow(stripe.rows, item);
}

Result<std::uint64_t> RocksTable::EvictRows(std::uint32_t tick, const RowVisitor& removed) {
  std::uint64_t evicted = 0;
  PACELINE_TRY(ForEachRow([&](const TableRow& row) -> Status {
    if (row.tick >= tick) return {};
    // It may have been touched since it was read.
    PACELINE_ASSIGN(const bool erased, EraseIfUntouched(row.id, tick, removed));
    if (erased) ++evicted;
    return {};
  }));
  return evicted;
}

Status RocksTable::Restore(const TableRow& row) {
  PACELINE_TRY(format().CheckRow(row));
  const Item item{.hash = HashId(row.id), .id = row.id, .position = 0};
  Stripe& stripe = *stripes_[StripeOf(item.hash, stripes_.size())];
  MutexLock lock(stripe.mutex);
  PACELINE_ASSIGN(RowStore::RowNumber number, Load(stripe.rows, item));
  if (number == RowStore::kNoRow) {
    PACELINE_ASSIGN(number, Place(stripe.rows, item));
    ++stripe.rows.stored;
  }
  format().Assign(row, stripe.rows.cache.rows().Floats(number));
  stripe.rows.cache.SetChanged(number);
  return {};
}

std::uint64_t RocksTable::Size() const {
  std::uint64_t rows = 0;
  for (const auto& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    rows += stripe->rows.stored;
  }
  return rows;
}

std::size_t RocksTable::MemoryBytes() const {
  std::size_t bytes = stripes_.size() * sizeof(Stripe) + CounterBytes();
  for (const auto& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    bytes += stripe->rows.cache.MemoryBytes();
  }
  for (const std::string& property :
       {rocksdb::DB::Properties::kSizeAllMemTables, rocksdb::DB::Properties::kBlockCacheUsage,
        rocksdb::DB::Properties::kEstimateTableReadersMem}) {
    std::uint64_t value = 0;
    if (db_->GetIntProperty(property, &value)) bytes += value;
  }
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Table>> OpenRocksTable(const TableOptions& options,
                                              const RocksTableOptions& rocks) {
  PACELINE_TRY(CheckTableOptions(options));
  const rocksdb::Options database_options = DatabaseOptions(rocks);
  rocksdb::Status status = rocksdb::DestroyDB(rocks.folder, database_options);
  if (!status.ok()) return DiskError(status, "emptying " + rocks.folder);
  rocksdb::DB* db = nullptr;
  status = rocksdb::DB::Open(database_options, rocks.folder, &db);
  if (!status.ok()) return DiskError(status, "opening " + rocks.folder);
  return std::unique_ptr<Table>(
      std::make_unique<RocksTable>(options, rocks, std::unique_ptr<rocksdb::DB>(db)));
}

}  // namespace paceline::ps
