#include "ps/stale_store.h"

#include <algorithm>
#include <utility>

#include "algo/table_partition.h"
#include "algo/table_row.h"
#include "base/log.h"
#include "base/thread.h"

namespace paceline::ps {

StaleStore::StaleStore(std::unique_ptr<Store> below, const Options& options)
    : below_(std::move(below)), options_(options), tables_(options.job.tables.size()) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    tables_[t].dim = options.job.tables[t].options.dim;
  }
  thread_ = StartThread("stale-pull", [this] { PullAll(); });
}

StaleStore::~StaleStore() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

StaleStore::Asked StaleStore::Copy(const PullRequest& request) const {
  Asked asked;
  asked.request = request;
  asked.dense.resize(request.dense.size());
  asked.request.dense = asked.dense;
  asked.ids.reserve(request.rows.size());
  asked.values.reserve(request.rows.size());
  for (RowsWanted& rows : asked.request.rows) {
    rows.ids = asked.ids.emplace_back(rows.ids.begin(), rows.ids.end());
    rows.out = asked.values.emplace_back(rows.out.size());
  }
  return asked;
}

Result<PullAnswer> StaleStore::Pull(const PullRequest& request) {
  if (request.touch != Touch::kTrain || request.min_version > 0) return below_->Pull(request);
  for (const RowsWanted& rows : request.rows) {
    if (rows.table >= options_.job.tables.size()) {
      return Status::Error(Code::kInvalidArgument, "rows of a table that is not there");
    }
  }
  const MutexLock order(pulling_);
  const auto deadline = std::chrono::steady_clock::now() + options_.patience;
  const MutexLock lock(mutex_);
  PACELINE_TRY(failure_);
  if (!busy_) {
    asked_ = Copy(request);
    busy_ = true;
    changed_.notify_all();
    while (busy_ && !pulled_) changed_.wait(mutex_);  // there is nothing to go on with
    while (busy_ && std::chrono::steady_clock::now() < deadline) {
      changed_.wait_until(mutex_, deadline);
    }
    PACELINE_TRY(failure_);
    if (!busy_) {
      for (std::size_t i = 0; i < request.rows.size(); ++i) {
        std::ranges::copy(asked_.values[i], request.rows[i].out.begin());
      }
      std::ranges::copy(asked_.dense, request.dense.begin());
      return answer_;
    }
    away_ = true;
    PACELINE_LOG(Warning, "a server is away; going on with the values pulled last");
  }
  ++stale_pulls_;
  Recall(request);
  return answer_;
}

// The pulls, one after the other, however long they take.
void StaleStore::PullAll() {
  for (;;) {
    Asked asked;
    {
      const MutexLock lock(mutex_);
      while (!busy_ && !stopped_) changed_.wait(mutex_);
      if (stopped_) return;
      asked = std::move(asked_);
    }
    auto answer = below_->Pull(asked.request);
    const MutexLock lock(mutex_);
    if (answer.ok()) {
      Remember(asked);
      answer_ = *std::move(answer);
      pulled_ = true;
    } else {
      failure_ = answer.status();
    }
    if (away_ && failure_.ok()) PACELINE_LOG(Info, "the servers answer again");
    away_ = false;
    asked_ = std::move(asked);
    busy_ = false;
    changed_.notify_all();
    if (!failure_.ok()) return;
  }
}

void StaleStore::Remember(const Asked& asked) {
  for (std::size_t i = 0; i < asked.request.rows.size(); ++i) {
    Table& table = tables_[asked.request.rows[i].table];
    for (std::size_t k = 0; k < asked.ids[i].size(); ++k) {
      const auto slot = table.slots.try_emplace(asked.ids[i][k], table.slots.size()).first->second;
      if ((slot + 1) * table.dim > table.values.size()) {
        table.values.resize((slot + 1) * table.dim);
      }
      std::copy_n(asked.values[i].begin() + static_cast<std::ptrdiff_t>(k * table.dim), table.dim,
                  table.values.begin() + static_cast<std::ptrdiff_t>(slot * table.dim));
    }
  }
  if (!asked.dense.empty()) dense_ = asked.dense;
}

void StaleStore::Recall(const PullRequest& request) const {
  for (const RowsWanted& rows : request.rows) {
    const Table& table = tables_[rows.table];
    const TableOptions& options = options_.job.tables[rows.table].options;
    const algo::TableSource source{.seed = options.seed, .key = algo::TableKey(options.name)};
    for (std::size_t k = 0; k < rows.ids.size(); ++k) {
      const std::span<float> out = rows.out.subspan(k * table.dim, table.dim);
      const auto found = table.slots.find(rows.ids[k]);
      if (found == table.slots.end()) {
        algo::InitialRow(source, rows.ids[k], options.init_range, out);
      } else {
        std::copy_n(table.values.begin() + static_cast<std::ptrdiff_t>(found->second * table.dim),
                    table.dim, out.begin());
      }
    }
  }
  std::copy_n(dense_.begin(), std::min(dense_.size(), request.dense.size()), request.dense.begin());
}

std::uint64_t StaleStore::stale_pulls() const {
  const MutexLock lock(mutex_);
  return stale_pulls_;
}

}  // namespace paceline::ps
