// What pushes do to a server's values.
#include <algorithm>
#include <limits>
#include <utility>

#include "ps/server_values.h"

namespace paceline::ps {

namespace {

// Fewer floats are changed sooner than another thread is awake.
constexpr std::size_t kSharedFloats = std::size_t{16} << 10;
// Stripes are shared out in so many parts: few enough to cost nothing, and the last one is short.
constexpr std::size_t kRowTasks = 16;

std::uint32_t TickOf(std::uint64_t round) {
  constexpr std::uint32_t kLastTick = std::numeric_limits<std::uint32_t>::max() - 1;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(round, kLastTick));
}

}  // namespace

std::vector<ServerValues::RowChange> ServerValues::GroupRows(const Push& push, OldValues* old) {
  std::vector<RowChange> changes;
  changes.reserve(push.tables.size());
  for (const TablePart& part : push.tables) {
    const auto sought = sought_.Take(part.table, part.ids);
    RowChange& change = changes.emplace_back(RowChange{
        .part = part,
        .groups = sought ? std::move(sought->groups) : tables_[part.table]->Group(part.ids),
        .learning_rate = push.learning_rate * spec_.tables[part.table].learning_rate_scale});
    if (old == nullptr) continue;
    OldRows& rows = old->tables[part.table];
    rows.ids.assign(part.ids.begin(), part.ids.end());
    rows.values.resize(part.values.size());
    change.before = rows.values;
  }
  return changes;
}

// One of kRowTasks parts. Whoever waits for these rows gets them while they are in the cache.
Status ServerValues::ChangeRows(std::span<RowChange> changes, std::span<const WaitingPull> pulls,
                                std::size_t number) {
  for (RowChange& change : changes) {
    const TablePart& part = change.part;
    PACELINE_TRY(tables_[part.table]
                     ->PushKeeping(StripePart(change.groups, number, kRowTasks), part.values,
                                   change.learning_rate, change.before)
                     .Wrap(NameOf(part.table)));
  }
  for (const WaitingPull& pull : pulls) {
    for (std::size_t i = 0; i < pull.prepared->sought.size(); ++i) {
      const RowsWanted& wanted = pull.request->rows[i];
      StripeGroups& groups = pull.prepared->sought[i].groups;
      PACELINE_TRY(tables_[wanted.table]
                       ->Pull(StripePart(groups, number, kRowTasks), wanted.out)
                       .Wrap(NameOf(wanted.table)));
    }
  }
  return {};
}

// Trainers wait until both are done. They have nothing in common, and stripes neither.
Status ServerValues::ApplyGradients(const Push& push, OldValues* old,
                                    std::span<const WaitingPull> pulls,
                                    const std::function<void()>& dense) {
  std::vector<RowChange> changes = GroupRows(push, old);
  std::vector<Status> ends(kRowTasks);
  const auto task = [&](std::size_t number) {
    if (number == 0) {
      dense();
    } else {
      ends[number - 1] = ChangeRows(changes, pulls, number - 1);
    }
  };
  std::size_t row_floats = 0;
  for (const TablePart& part : push.tables) row_floats += part.values.size();
  if (row_floats >= kSharedFloats) {
    helper_.Share(kRowTasks + 1, task);
  } else {
    for (std::size_t i = 0; i <= kRowTasks; ++i) task(i);
  }
  for (const TablePart& part : push.tables) changes_.Changed(part.table, part.ids);
  const auto failed = std::ranges::find_if(ends, [](const Status& end) { return !end.ok(); });
  return failed == ends.end() ? Status() : *failed;
}

Status ServerValues::AddDeltas(const Push& push) {
  for (const TablePart& part : push.tables) {
    std::vector<float> shares(part.values.begin(), part.values.end());
    for (float& share : shares) share /= static_cast<float>(push.trainers);
    PACELINE_TRY(tables_[part.table]->Add(part.ids, shares).Wrap(NameOf(part.table)));
    changes_.Changed(part.table, part.ids);
  }
  if (!push.dense.empty()) dense_.Add(push.dense, push.trainers);
  return {};
}

Status ServerValues::Apply(std::uint64_t round, const Push& push,
                           std::span<const WaitingPull> pulls) {
  SetTicks(round);
  if (push.deltas) {
    PACELINE_TRY(AddDeltas(push));
  } else {
    PACELINE_TRY(ApplyGradients(push, nullptr, pulls, [&] {
      if (push.dense.empty()) return;
      dense_.ApplyOne(push.dense, push.learning_rate, push.trainers);
    }));
  }
  return Evict(round, [](std::size_t, const TableRow&) {});
}

// Memory for what a round changes; none where nobody repeats one.
std::optional<ServerValues::OldValues> ServerValues::OldValuesOf(std::uint64_t round,
                                                                 const PushSum& sum) {
  if (options_.servers == 1) return std::nullopt;
  OldValues old;
  {
    const MutexLock lock(before_mutex_);
    if (before_) old = std::move(*before_);  // memory that is there already
    before_.reset();
  }
  old.round = round;
  old.tables.resize(tables_.size());
  for (OldRows& rows : old.tables) rows.Clear();
  old.dense.resize(sum.dense.empty() ? 0 : dense_.floats());
  return old;
}

Status ServerValues::ApplyRound(std::uint64_t round, const PushSum& sum,
                                std::span<const WaitingPull> pulls) {
  std::optional<OldValues> old = OldValuesOf(round, sum);
  SetTicks(round);
  PACELINE_TRY(ApplyGradients(sum.push, old ? &*old : nullptr, pulls, [&] {
    if (sum.dense.empty()) return;
    dense_.ApplySum(sum.dense, sum.push.learning_rate,
                    old ? std::span(old->dense) : std::span<float>());
  }));
  // Who repeats this round needs also the rows that end with it.
  PACELINE_TRY(Evict(round, [&](std::size_t table, const TableRow& row) {
    if (old) old->tables[table].Add(row.id, row.values);
  }));
  const MutexLock lock(before_mutex_);
  before_ = std::move(old);
  return {};
}

bool ServerValues::FillsPulls(const Push& push) const {
  return !push.deltas && std::ranges::all_of(spec_.tables, [](const auto& table) {
    return table.options.evict_after == 0;
  });
}

void ServerValues::SetTicks(std::uint64_t round) {
  for (const auto& table : tables_) table->SetTick(TickOf(round));
}

Status ServerValues::Evict(std::uint64_t round, const Removed& removed) {
  if (evicted_round_ == round) return {};  // several pushes are of the same round
  evicted_round_ = round;
  for (std::uint32_t i = 0; i < tables_.size(); ++i) {
    const std::uint32_t after = spec_.tables[i].options.evict_after;
    if (!EvictsWith(round, after)) continue;
    std::vector<std::int64_t> ids;
    PACELINE_TRY(tables_[i]
                     ->EvictUntouchedSince(TickOf(round - after) + 1,
                                           [&](const TableRow& row) {
                                             ids.push_back(row.id);
                                             removed(i, row);
                                             return Status();
                                           })
                     .status()
                     .Wrap(NameOf(i)));
    changes_.Changed(i, ids);
    AddEvicted(i, ids.size());
  }
  return {};
}

}  // namespace paceline::ps
