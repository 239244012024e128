#include "ps/sync_rounds.h"

#include <algorithm>
#include <tuple>

#include "algo/reduction_tree.h"
#include "base/check.h"
#include "kernel/reduce.h"

namespace paceline::ps {

namespace {

// A sum of long arrays is made piece by piece, so that partial sums stay in the cache.
constexpr std::size_t kPieceFloats = 8192;

// Where one trainer's gradient of a row lies.
struct RowPart {
  std::int64_t id = 0;
  std::size_t trainer = 0;  // position among those who pushed
  const float* values = nullptr;
};

// Adds up one table of all pushes.
void SumTable(std::span<const TablePart* const> parts, TreeAdder& adder, PushSum& sum) {
  if (parts.size() == 1) {
    sum.push.tables.push_back(*parts.front());
    return;
  }
  const std::size_t dim = parts.front()->dim;
  std::vector<RowPart> rows;
  std::size_t count = 0;
  for (const TablePart* part : parts) count += part->ids.size();
  rows.reserve(count);
  for (std::size_t trainer = 0; trainer < parts.size(); ++trainer) {
    const TablePart& part = *parts[trainer];
    for (std::size_t i = 0; i < part.ids.size(); ++i) {
      rows.push_back({part.ids[i], trainer, part.values.data() + i * dim});
    }
  }
  std::ranges::sort(rows, {}, [](const RowPart& row) { return std::tie(row.id, row.trainer); });

  std::vector<std::int64_t> ids;
  std::vector<float> values(count * dim);
  std::vector<std::span<const float>> leaves;
  ids.reserve(count);
  for (std::size_t begin = 0; begin < rows.size();) {
    leaves.clear();
    std::size_t end = begin;
    for (; end < rows.size() && rows[end].id == rows[begin].id; ++end) {
      leaves.emplace_back(rows[end].values, dim);
    }
    adder.Add(leaves, std::span(values).subspan(ids.size() * dim, dim));
    ids.push_back(rows[begin].id);
    begin = end;
  }
  values.resize(ids.size() * dim);
  sum.ids.push_back(std::move(ids));
  sum.values.push_back(std::move(values));
  sum.push.tables.push_back({.table = parts.front()->table,
                             .dim = parts.front()->dim,
                             .ids = sum.ids.back(),
                             .values = sum.values.back()});
}

}  // namespace

void TreeAdder::Add(std::span<const std::span<const float>> leaves, std::span<float> sum) {
  PACELINE_CHECK(!leaves.empty(), "something to add");
  if (leaves.size() == 1) {
    std::ranges::copy(leaves.front(), sum.begin());
    return;
  }
  const auto plan = algo::SequentialPlan(leaves.size());
  const std::size_t piece = std::min(kPieceFloats, sum.size());
  scratch_.resize(algo::SequentialSlots(leaves.size()) * piece);
  for (std::size_t begin = 0; begin < sum.size(); begin += piece) {
    const std::size_t count = std::min(piece, sum.size() - begin);
    const auto slot = [&](std::size_t number) {
      return number == 0 ? sum.subspan(begin, count)
                         : std::span(scratch_).subspan(number * piece, count);
    };
    for (const algo::TreeOp& op : plan) {
      if (op.kind == algo::TreeOp::Kind::kLeaf) {
        std::ranges::copy(leaves[op.source].subspan(begin, count), slot(op.target).begin());
      } else {
        kernel::AddInto(slot(op.target), slot(op.source));
      }
    }
  }
}

PushSum SumOfOne(const Push& push) {
  PushSum sum;
  sum.push = push;
  if (!push.dense.empty()) sum.dense.push_back(push.dense);
  return sum;
}

void SyncRounds::Add(std::uint64_t batch, std::uint64_t trainer, KeptMessage message) {
  const bool is_new = rounds_[batch].emplace(trainer, std::move(message)).second;
  PACELINE_CHECK(is_new, "each push of a round comes once");
}

bool SyncRounds::Has(std::uint64_t batch, std::uint64_t trainer) const {
  const auto round = rounds_.find(batch);
  return round != rounds_.end() && round->second.contains(trainer);
}

PushSum SyncRounds::Sum(std::uint64_t batch) const {
  PushSum sum;
  const auto found = rounds_.find(batch);
  PACELINE_CHECK(found != rounds_.end(), "a batch that somebody pushed");
  std::vector<Push> pushes;
  pushes.reserve(found->second.size());
  for (const auto& [trainer, message] : found->second) {
    auto push = DecodePush(message.bytes);
    PACELINE_CHECK(push.ok(), "was checked when it came");
    pushes.push_back(std::move(*push));
  }
  sum.push.learning_rate = pushes.front().learning_rate;

  std::map<std::uint32_t, std::vector<const TablePart*>> by_table;
  for (const Push& push : pushes) {
    for (const TablePart& part : push.tables) by_table[part.table].push_back(&part);
  }
  TreeAdder adder;
  for (const auto& [table, parts] : by_table) SumTable(parts, adder, sum);
  for (const Push& push : pushes) {
    if (!push.dense.empty()) sum.dense.push_back(push.dense);
  }
  return sum;
}

std::size_t SyncRounds::pushes() const {
  std::size_t count = 0;
  for (const auto& [batch, round] : rounds_) count += round.size();
  return count;
}

std::size_t SyncRounds::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [batch, round] : rounds_) {
    for (const auto& [trainer, message] : round) bytes += message.bytes.size();
  }
  return bytes;
}

Status SyncRounds::ForEach(const Visitor& visit) const {
  for (const auto& [batch, round] : rounds_) {
    for (const auto& [trainer, message] : round) PACELINE_TRY(visit(message.bytes));
  }
  return {};
}

}  // namespace paceline::ps
