#include "ps/server_values.h"

#include <algorithm>
#include <cmath>

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

bool EachOnce(std::span<const std::int64_t> ids) {
  if (std::ranges::adjacent_find(ids, std::ranges::greater_equal()) == ids.end()) return true;
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
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
      dense_(spec, DensePiecesOf(spec, options.servers, options.index)) {}

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
  if (!EachOnce(part.ids)) return Protocol(NameOf(part.table) + ": an id comes twice in one push");
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

Status ServerValues::ApplyTables(const Push& push) {
  for (const TablePart& part : push.tables) {
    PACELINE_TRY(ApplyPart(push, part).Wrap(NameOf(part.table)));
    changes_.Changed(part.table, part.ids);
  }
  return {};
}

Status ServerValues::Apply(const Push& push) {
  PACELINE_TRY(ApplyTables(push));
  if (push.dense.empty()) return {};
  if (push.deltas) {
    dense_.Add(push.dense, push.trainers);
  } else {
    dense_.ApplyOne(push.dense, push.learning_rate);
  }
  return {};
}

Status ServerValues::ApplyRound(std::uint64_t round, const PushSum& sum) {
  PACELINE_ASSIGN(OldValues old, RowsBefore(round, sum.push));
  {
    const MutexLock lock(before_mutex_);
    if (before_) old.dense = std::move(before_->dense);  // memory that is there already
    before_.reset();
  }
  PACELINE_TRY(ApplyTables(sum.push));
  if (sum.dense.empty()) {
    old.dense.clear();
  } else {
    old.dense.resize(dense_.floats());
    dense_.ApplySum(sum.dense, sum.push.learning_rate, old.dense);
  }
  const MutexLock lock(before_mutex_);
  before_ = std::move(old);
  return {};
}

Status ServerValues::ApplyPart(const Push& push, const TablePart& part) {
  Table& table = *tables_[part.table];
  if (!push.deltas) {
    return table.Push(part.ids, part.values,
                      push.learning_rate * spec_.tables[part.table].learning_rate_scale);
  }
  std::vector<float> shares(part.values.begin(), part.values.end());
  for (float& share : shares) share /= static_cast<float>(push.trainers);
  return table.Add(part.ids, shares);
}

Result<std::vector<AdmittedRows>> ServerValues::KeepAdmitted(PushSum& sum) {
  std::vector<AdmittedRows> kept;
  for (TablePart& part : sum.push.tables) {
    const AdmissionOptions& admission = spec_.tables[part.table].options.admission;
    if (admission.rule != AdmissionRule::kAfterTouches) continue;
    std::vector<std::uint8_t> has(part.ids.size());
    PACELINE_TRY(tables_[part.table]->Has(part.ids, has));
    AdmittedRows rows{.table = part.table, .ids = {}};
    std::vector<float> values;
    for (std::size_t i = 0; i < has.size(); ++i) {
      if (has[i] == 0) continue;
      rows.ids.push_back(part.ids[i]);
      const auto row = part.values.subspan(i * part.dim, part.dim);
      values.insert(values.end(), row.begin(), row.end());
    }
    sum.ids.push_back(rows.ids);
    sum.values.push_back(std::move(values));
    part.ids = sum.ids.back();
    part.values = sum.values.back();
    if (!rows.ids.empty()) kept.push_back(std::move(rows));
  }
  return kept;
}

Status ServerValues::Admit(const AdmittedRows& rows) {
  if (!CheckTable(rows.table).ok()) {
    return Status::Error(Code::kBadCheckpoint, "admitted rows of a table that the job has not");
  }
  const TableOptions& options = spec_.tables[rows.table].options;
  Table& table = *tables_[rows.table];
  std::vector<std::uint8_t> has(rows.ids.size());
  PACELINE_TRY(table.Has(rows.ids, has));
  std::vector<float> values(options.dim);
  const std::vector<float> state(StateFloats(options.optimizer.kind, options.dim));
  for (std::size_t i = 0; i < has.size(); ++i) {
    if (has[i] != 0) continue;
    const auto id = std::span(rows.ids).subspan(i, 1);
    PACELINE_TRY(table.Pull(id, Touch::kPeek, values));  // the initial values
    PACELINE_TRY(table.Restore({.id = id.front(), .values = values, .state = state}));
  }
  return {};
}

Status ServerValues::Pull(const PullRequest& request,
                          const std::function<void(std::size_t)>& copied) {
  for (const RowsWanted& wanted : request.rows) {
    PACELINE_TRY(CheckTable(wanted.table));
    PACELINE_TRY(CheckIds(wanted.table, wanted.ids));
    PACELINE_TRY(tables_[wanted.table]->Pull(wanted.ids, request.touch, wanted.out));
  }
  if (request.dense.empty()) return {};
  if (request.dense.size() != dense_.floats()) {
    return Protocol(fmt::format("a pull of {} dense floats: this server has {}",
                                request.dense.size(), dense_.floats()));
  }
  const bool keeps = spec_.delay_compensation > 0 && request.touch == Touch::kTrain &&
                     request.trainer < spec_.trainers;
  if (keeps) {
    dense_.ReadAndKeep(request.trainer, request.dense);
  } else {
    dense_.Read(request.dense, copied);
  }
  return {};
}

Result<ServerValues::OldValues> ServerValues::RowsBefore(std::uint64_t round, const Push& sum) {
  OldValues old{.round = round, .tables = std::vector<OldRows>(tables_.size()), .dense = {}};
  for (const TablePart& part : sum.tables) {
    OldRows& rows = old.tables[part.table];
    rows.values.resize(part.ids.size() * part.dim);
    PACELINE_TRY(tables_[part.table]->Pull(part.ids, Touch::kPeek, rows.values));
    rows.places.reserve(part.ids.size());
    for (std::size_t i = 0; i < part.ids.size(); ++i) rows.places.emplace(part.ids[i], i);
  }
  return old;
}

bool ServerValues::RestoreBefore(std::uint64_t round, const PullRequest& request) const {
  const MutexLock lock(before_mutex_);
  if (!before_ || before_->round != round) return false;
  for (const RowsWanted& wanted : request.rows) {
    const OldRows& rows = before_->tables[wanted.table];
    const std::size_t dim = spec_.tables[wanted.table].options.dim;
    for (std::size_t i = 0; i < wanted.ids.size(); ++i) {
      const auto found = rows.places.find(wanted.ids[i]);
      if (found == rows.places.end()) continue;
      std::ranges::copy(std::span(rows.values).subspan(found->second * dim, dim),
                        wanted.out.subspan(i * dim, dim).begin());
    }
  }
  if (!request.dense.empty() && !before_->dense.empty()) {
    std::ranges::copy(before_->dense, request.dense.begin());
  }
  return true;
}

Result<ChangedRows> ServerValues::PullChanged(std::uint64_t trainer, std::uint32_t table,
                                              std::uint64_t call) {
  PACELINE_TRY(CheckTable(table));
  ChangeRecorder::Taken taken = changes_.Take(trainer, table, call);
  ChangedRows rows{.restarted = taken.restarted, .ids = std::move(taken.ids), .values = {}};
  rows.values.resize(rows.ids.size() * spec_.tables[table].options.dim);
  PACELINE_TRY(tables_[table]->Pull(rows.ids, Touch::kPeek, rows.values));
  return rows;
}

std::uint64_t ServerValues::Rows() const {
  std::uint64_t rows = 0;
  for (const auto& table : tables_) rows += table->Size();
  return rows;
}

std::size_t ServerValues::TableBytes() const {
  std::size_t bytes = 0;
  for (const auto& table : tables_) bytes += table->MemoryBytes();
  return bytes;
}

}  // namespace paceline::ps
