#include "fused/round_rows.h"

#include <algorithm>

#include "kernel/reduce.h"

namespace paceline::fused {

RoundRows::RoundRows(const std::vector<sparse::TableSpec>& tables) : tables_(tables.size()) {
  for (std::size_t t = 0; t < tables.size(); ++t) tables_[t].dim = tables[t].dim;
  rows_.resize(tables.size());
}

void RoundRows::Begin(Batches batches) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    if (batches.size() == 1) {
      table.ids = batches[0]->ids[t];  // each is there once already
    } else {
      Number(table, batches, t);
    }
    table.first_rows = batches[0]->ids[t].size();
    table.values.resize(table.ids.size() * table.dim);
    table.sums.resize(table.values.size());
    // Those of the first batch are overwritten by its gradients, and the others added to.
    std::ranges::fill(std::span(table.sums).subspan(table.first_rows * table.dim), 0.0F);
  }
}

void RoundRows::Number(Table& table, Batches batches, std::size_t number) {
  std::size_t most = 0;
  for (const auto& batch : batches) most += batch->ids[number].size();
  table.unique.Reset(most);
  table.ids.clear();
  table.places.resize(batches.size());
  for (std::size_t b = 0; b < batches.size(); ++b) {
    table.places[b].clear();
    for (const std::int64_t id : batches[b]->ids[number]) {
      table.places[b].push_back(table.unique.Add(id, table.ids));
    }
  }
}

std::vector<ps::RowsWanted> RoundRows::Wanted() {
  std::vector<ps::RowsWanted> wanted;
  wanted.reserve(tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    if (table.ids.empty()) continue;
    wanted.push_back({static_cast<std::uint32_t>(t), table.ids, table.values});
  }
  return wanted;
}

std::span<const sparse::TableRows> RoundRows::RowsOf(std::size_t batch) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    table.pointers.clear();
    // The first batch's rows are the first of the round, in the same order: no copy is needed.
    if (batch == 0) {
      for (std::size_t i = 0; i < table.first_rows; ++i) {
        table.pointers.push_back(table.values.data() + i * table.dim);
      }
      rows_[t] = {table.pointers, std::span(table.sums).first(table.first_rows * table.dim)};
      continue;
    }
    for (const std::uint32_t place : table.places[batch]) {
      table.pointers.push_back(table.values.data() + place * table.dim);
    }
    table.gradient.resize(table.pointers.size() * table.dim);
    rows_[t] = {table.pointers, table.gradient};
  }
  return rows_;
}

void RoundRows::Add(std::size_t batch) {
  if (batch == 0) return;
  for (Table& table : tables_) {
    const float* gradient = table.gradient.data();
    for (const std::uint32_t place : table.places[batch]) {
      float* sum = table.sums.data() + place * table.dim;
      for (std::size_t i = 0; i < table.dim; ++i) sum[i] += gradient[i];
      gradient += table.dim;
    }
  }
}

std::vector<ps::TablePart> RoundRows::Gradients() const {
  std::vector<ps::TablePart> parts;
  parts.reserve(tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const Table& table = tables_[t];
    if (table.ids.empty()) continue;
    parts.push_back({.table = static_cast<std::uint32_t>(t),
                     .dim = static_cast<std::uint32_t>(table.dim),
                     .ids = table.ids,
                     .values = table.sums});
  }
  return parts;
}

bool RoundRows::Finite() const {
  return std::ranges::all_of(tables_,
                             [](const Table& table) { return kernel::AllFinite(table.sums); });
}

}  // namespace paceline::fused
