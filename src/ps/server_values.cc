#include "ps/server_values.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <fmt/format.h>

#include "algo/table_partition.h"
#include "kernel/reduce.h"
#include "ps/rocks_table.h"
#include "ps/sparse_table.h"

namespace paceline::ps {

namespace {

Status Protocol(const std::string& why) { return Status::Error(Code::kProtocol, why); }

Status CheckFinite(std::span<const float> values, const std::string& whose) {
  if (kernel::AllFinite(values)) return {};
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("a push with a number that is not finite: {}", whose));
}

// Of each trainer the pull whose push is to come, and one that was asked for ahead of that push.
std::size_t MostSought(const JobSpec& spec) {
  constexpr std::uint64_t kMostTrainers = 8;
  const std::uint64_t trainers = std::clamp<std::uint64_t>(spec.trainers, 1, kMostTrainers);
  return static_cast<std::size_t>(2 * trainers * spec.tables.size());
}

Result<std::unique_ptr<Table>> OpenTable(const TableOptions& table, std::size_t number,
                                         const ServerValuesOptions& options) {
  if (options.table_store == "memory") return OpenSparseTable(table);
  if (options.table_store != "rocksdb") {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("no store of tables is named '{}': memory, rocksdb", options.table_store));
  }
  if (options.folder.empty()) {
    return Status::Error(Code::kInvalidArgument, "tables on rocksdb need a folder");
  }
  return OpenRocksTable(table, {.folder = fmt::format("{}/table-{}", options.folder, number),
                                .cache_bytes = options.hot_bytes});
}

}  // namespace

ServerValues::ServerValues(const JobSpec& spec, const ServerValuesOptions& options)
    : spec_(spec),
      options_(options),
      dense_(spec, DensePiecesOf(spec, options.servers, options.index)),
      sought_(MostSought(spec)),
      evicted_(spec.tables.size()) {}

Result<std::unique_ptr<ServerValues>> ServerValues::Open(const JobSpec& spec,
                                                         const ServerValuesOptions& options) {
  std::unique_ptr<ServerValues> values(new ServerValues(spec, options));
  values->tables_.reserve(spec.tables.size());
  for (std::size_t i = 0; i < spec.tables.size(); ++i) {
    PACELINE_ASSIGN(auto table, OpenTable(spec.tables[i].options, i, options));
    values->tables_.push_back(std::move(table));
  }
  return values;
}

std::string ServerValues::NameOf(std::uint32_t table) const {
  return fmt::format("table '{}'", spec_.tables[table].options.name);
}

Status ServerValues::CheckTable(std::uint32_t table) const {
  if (table < tables_.size()) return {};
  return Protocol(fmt::format("table {} of {}", table, tables_.size()));
}

Status ServerValues::CheckIds(std::uint32_t table, std::span<const std::int64_t> ids) const {
  if (options_.servers == 1) return {};  // it keeps them all
  for (const std::int64_t id : ids) {
    const std::uint32_t server = algo::ServerOf(id, options_.servers);
    if (server != options_.index) {
      return Protocol(fmt::format("{}: id {} is server {}'s, this is server {} of {}",
                                  NameOf(table), id, server, options_.index, options_.servers));
    }
  }
  return {};
}

Status ServerValues::CheckPart(const TablePart& part) const {
  PACELINE_TRY(CheckTable(part.table));
  const std::size_t dim = spec_.tables[part.table].options.dim;
  if (part.dim != dim || part.values.size() != part.ids.size() * dim) {
    return Protocol(
        fmt::format("{}: rows of {} floats instead of {}", NameOf(part.table), part.dim, dim));
  }
  PACELINE_TRY(CheckIds(part.table, part.ids));
  if (!sought_.KnowsEachOnce(part.table, part.ids) && !EachOnce(part.ids)) {
    return Protocol(NameOf(part.table) + ": an id comes twice in one push");
  }
  return CheckFinite(part.values, NameOf(part.table));
}

Status ServerValues::Check(const Push& push, bool dense_is_finite) const {
  if (!std::isfinite(push.learning_rate)) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("a push with learning rate {}", push.learning_rate));
  }
  if (push.deltas && spec_.apply == Apply::kTogether) {
    return Protocol("a push of changes instead of gradients, to trainers that wait for each other");
  }
  std::vector<std::uint32_t> tables;
  tables.reserve(push.tables.size());
  for (const TablePart& part : push.tables) {
    PACELINE_TRY(CheckPart(part));
    tables.push_back(part.table);
  }
  std::ranges::sort(tables);
  if (std::ranges::adjacent_find(tables) != tables.end()) {
    return Protocol("a table comes twice in one push");
  }
  if (!push.dense.empty() && push.dense.size() != dense_.floats()) {
    return Protocol(fmt::format("a push with {} dense floats: this server has {}",
                                push.dense.size(), dense_.floats()));
  }
  return dense_is_finite ? Status() : CheckFinite(push.dense, "dense");
}

Result<std::vector<SoughtRows>> ServerValues::Seek(const PullRequest& request) const {
  std::vector<SoughtRows> sought;
  sought.reserve(request.rows.size());
  for (const RowsWanted& wanted : request.rows) {
    PACELINE_TRY(CheckTable(wanted.table));
    PACELINE_TRY(CheckIds(wanted.table, wanted.ids));
    sought.push_back({.table = wanted.table,
                      .ids = {wanted.ids.begin(), wanted.ids.end()},
                      .groups = tables_[wanted.table]->Group(wanted.ids)});
  }
  return sought;
}

Status ServerValues::PullRows(const PullRequest& request, std::span<SoughtRows> sought) {
  for (std::size_t i = 0; i < sought.size(); ++i) {
    const RowsWanted& wanted = request.rows[i];
    PACELINE_TRY(tables_[wanted.table]->Pull(sought[i].groups, wanted.out));
  }
  return {};
}

Result<PreparedPull> ServerValues::Prepare(const PullRequest& request) {
  PreparedPull prepared;
  PACELINE_ASSIGN(prepared.sought, Seek(request));
  PACELINE_TRY(PullRows(request, prepared.sought));
  for (SoughtRows& rows : prepared.sought) rows.is_each_once = EachOnce(rows.ids);
  return prepared;
}

Status ServerValues::Pull(const PullRequest& request, PreparedPull prepared,
                          const std::function<void(std::size_t)>& copied) {
  if (prepared.sought.size() != request.rows.size()) {
    PACELINE_ASSIGN(prepared.sought, Seek(request));
  }
  if (!prepared.has_rows) PACELINE_TRY(PullRows(request, prepared.sought));
  if (request.touch == Touch::kTrain) {
    for (SoughtRows& rows : prepared.sought) sought_.Keep(std::move(rows));
  }
  if (request.dense.empty()) return {};
  if (request.dense.size() != dense_.floats()) {
    return Protocol(fmt::format("a pull of {} dense floats: this server has {}",
                                request.dense.size(), dense_.floats()));
  }
  if (KeepsPulled(request)) {
    dense_.ReadAndKeep(request.trainer, request.order, request.dense);
  } else {
    dense_.Read(request.order, request.dense, copied);
  }
  return {};
}

bool ServerValues::KeepsPulled(const PullRequest& request) const {
  return spec_.delay_compensation > 0 && request.touch == Touch::kTrain &&
         request.trainer < spec_.trainers;
}

void ServerValues::OldRows::Clear() {
  ids.clear();
  values.clear();
}

void ServerValues::OldRows::Add(std::int64_t id, std::span<const float> row) {
  ids.push_back(id);
  values.insert(values.end(), row.begin(), row.end());
}

bool ServerValues::RestoreBefore(std::uint64_t round, const PullRequest& request) const {
  const MutexLock lock(before_mutex_);
  if (!before_ || before_->round != round) return false;
  for (const RowsWanted& wanted : request.rows) {
    const OldRows& rows = before_->tables[wanted.table];
    const std::size_t dim = spec_.tables[wanted.table].options.dim;
    std::unordered_map<std::int64_t, std::size_t> places;
    places.reserve(rows.ids.size());
    for (std::size_t i = 0; i < rows.ids.size(); ++i) places.emplace(rows.ids[i], i);
    for (std::size_t i = 0; i < wanted.ids.size(); ++i) {
      const auto found = places.find(wanted.ids[i]);
      if (found == places.end()) continue;
      std::ranges::copy(std::span(rows.values).subspan(found->second * dim, dim),
                        wanted.out.subspan(i * dim, dim).begin());
    }
  }
  if (!request.dense.empty() && !before_->dense.empty()) {
    CopyInOrder(before_->dense, request.order, request.dense);
  }
  return true;
}

Result<ChangedRows> ServerValues::PullChanged(std::uint64_t trainer, std::uint32_t table,
                                              std::uint64_t call) {
  PACELINE_TRY(CheckTable(table));
  ChangeRecorder::Taken taken = changes_.Take(trainer, table, call);
  ChangedRows rows{.restarted = taken.restarted, .ids = std::move(taken.ids), .values = {}};
  rows.values.resize(rows.ids.size() * spec_.tables[table].options.dim);
  PACELINE_TRY(tables_[table]->Pull(rows.ids, rows.values));
  return rows;
}

std::vector<std::uint64_t> ServerValues::Evicted() const {
  const MutexLock lock(evicted_mutex_);
  return evicted_;
}

void ServerValues::AddEvicted(std::size_t table, std::uint64_t rows) {
  const MutexLock lock(evicted_mutex_);
  evicted_[table] += rows;
}

std::vector<TableStatus> ServerValues::TableStatuses() const {
  const std::vector<std::uint64_t> evicted = Evicted();
  std::vector<TableStatus> statuses;
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    statuses.push_back({.name = spec_.tables[i].options.name,
                        .rows = tables_[i]->Size(),
                        .waiting = tables_[i]->Waiting(),
                        .evicted = evicted[i]});
  }
  return statuses;
}

std::size_t ServerValues::TableBytes() const {
  std::size_t bytes = 0;
  for (const auto& table : tables_) bytes += table->MemoryBytes();
  return bytes;
}

}  // namespace paceline::ps
